//! Templates, their builds and what came of steps, in the records.

use super::RecordsError;
use super::database::{Database, execute, explain};
use crate::templates::{Cached, KeptBuild, Key, Version};
use atoll_api::id::BuildId;
use atoll_api::template::TemplateName;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(super) const MIGRATION: &str = "
    CREATE TABLE templates (
        name TEXT PRIMARY KEY,
        last INTEGER NOT NULL   -- the last number that a version had
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE template_versions (
        name   TEXT NOT NULL REFERENCES templates (name) ON DELETE CASCADE,
        number INTEGER NOT NULL,
        body   TEXT NOT NULL,   -- a Version as JSON
        PRIMARY KEY (name, number)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE builds (
        id   TEXT PRIMARY KEY,
        body TEXT NOT NULL      -- a KeptBuild as JSON
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE build_steps (  -- what came of steps
        key  TEXT PRIMARY KEY,
        body TEXT NOT NULL      -- a Cached as JSON
    ) STRICT, WITHOUT ROWID;
";

/// A change of what is remembered of templates.
#[derive(Debug, Clone)]
pub enum TemplateChange {
    /// There is such a template, and this number was the last that a version of it had.
    Name(TemplateName, u32),
    /// There is none any more, and no version of it.
    ForgetName(TemplateName),
    /// There is this version.
    Version(Box<Version>),
    /// It is no more.
    ForgetVersion(TemplateName, u32),
    /// A build is so.
    Build(Box<KeptBuild>),
    /// It is not remembered any more.
    ForgetBuild(BuildId),
    /// This came of steps.
    Step(Cached),
    /// It is not kept any more.
    ForgetStep(Key),
}

/// All that is remembered of templates.
#[derive(Debug, Default)]
pub struct KnownTemplates {
    /// Each with the last number that a version had.
    pub names: Vec<(TemplateName, u32)>,
    /// The versions.
    pub versions: Vec<Version>,
    /// The builds.
    pub builds: Vec<KeptBuild>,
    /// What came of steps.
    pub steps: Vec<Cached>,
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("what is kept has string keys only")
}

impl Database {
    fn bodies<T: DeserializeOwned>(&self, query: &str) -> Result<Vec<T>, RecordsError> {
        let failed = |source| explain(&self.path, "read templates of", source);
        let mut statement = self.connection.prepare(query).map_err(failed)?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).map_err(failed)?;
        let mut found = Vec::new();
        for row in rows {
            let body = row.map_err(failed)?;
            found.push(serde_json::from_str(&body).map_err(|error| {
                self.damaged(&format!("something of a template cannot be read: {error}"))
            })?);
        }
        Ok(found)
    }

    /// Reads all that is remembered of templates.
    ///
    /// # Errors
    /// [`RecordsError::Damaged`] says what cannot be understood.
    pub fn templates(&self) -> Result<KnownTemplates, RecordsError> {
        let failed = |source| explain(&self.path, "read templates of", source);
        let query = "SELECT name, last FROM templates";
        let mut statement = self.connection.prepare(query).map_err(failed)?;
        let rows = statement
            .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, u32>(1)?)))
            .map_err(failed)?;
        let mut names = Vec::new();
        for row in rows {
            let (name, last) = row.map_err(failed)?;
            let read = name.parse().map_err(|_| self.damaged("a template has no name"))?;
            names.push((read, last));
        }
        Ok(KnownTemplates {
            names,
            versions: self.bodies("SELECT body FROM template_versions")?,
            builds: self.bodies("SELECT body FROM builds")?,
            steps: self.bodies("SELECT body FROM build_steps")?,
        })
    }

    /// Writes what has changed of templates, all of it or nothing.
    ///
    /// # Errors
    /// Nothing was written then.
    pub fn save_templates(&mut self, changes: &[TemplateChange]) -> Result<(), RecordsError> {
        self.write_all(changes, |transaction, change| match change {
            TemplateChange::Name(name, last) => execute(
                transaction,
                "INSERT INTO templates (name, last) VALUES (?1, ?2)
                     ON CONFLICT (name) DO UPDATE SET last = excluded.last",
                (name.as_str(), last),
            ),
            TemplateChange::ForgetName(name) => {
                execute(transaction, "DELETE FROM templates WHERE name = ?1", [name.as_str()])
            }
            TemplateChange::Version(version) => execute(
                transaction,
                "INSERT INTO template_versions (name, number, body) VALUES (?1, ?2, ?3)",
                (version.name.as_str(), version.number, json(version)),
            ),
            TemplateChange::ForgetVersion(name, number) => execute(
                transaction,
                "DELETE FROM template_versions WHERE name = ?1 AND number = ?2",
                (name.as_str(), number),
            ),
            TemplateChange::Build(build) => execute(
                transaction,
                "INSERT INTO builds (id, body) VALUES (?1, ?2)
                     ON CONFLICT (id) DO UPDATE SET body = excluded.body",
                (build.shown.id.to_string(), json(build)),
            ),
            TemplateChange::ForgetBuild(id) => {
                execute(transaction, "DELETE FROM builds WHERE id = ?1", [id.to_string()])
            }
            TemplateChange::Step(step) => execute(
                transaction,
                "INSERT INTO build_steps (key, body) VALUES (?1, ?2)
                     ON CONFLICT (key) DO UPDATE SET body = excluded.body",
                (step.key.as_str(), json(step)),
            ),
            TemplateChange::ForgetStep(key) => {
                execute(transaction, "DELETE FROM build_steps WHERE key = ?1", [key.as_str()])
            }
        })
    }
}
