//! The task that lets go of what builds need no longer.

use super::{TemplateError, Templates};
use crate::clock::wait_until;
use crate::engine::{Engine, Shared};
use crate::error::chain;
use crate::records::TemplateChange;
use atoll_api::template::{Template, TemplateRef};
use atoll_api::time::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;

/// How long to wait before something that failed is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// Keeps them until the engine shuts down. What an earlier server left is looked at first.
pub(crate) async fn keep(shared: Arc<Shared>) {
    shared.until_closing(work(&shared)).await;
}

async fn work(shared: &Arc<Shared>) {
    loop {
        let now = shared.clock.now();
        let again_at = match sweep(shared, now).await {
            Ok(()) => shared.templates.next_to_expire(),
            Err(error) => {
                tracing::warn!(cause = chain(&error), "what builds left could not be removed");
                Some(now.after(RETRY_AFTER))
            }
        };
        tokio::select! {
            () = shared.templates.garbage.notified() => {}
            () = wait_until(&*shared.clock, again_at) => {}
        }
    }
}

/// Lets go of all that is too old or too much.
async fn sweep(shared: &Arc<Shared>, now: Timestamp) -> Result<(), TemplateError> {
    let templates = &shared.templates;
    let is_there = |id| shared.snapshots.of_any(id).is_some();
    let changes = templates.forget(now, is_there);
    if !changes.is_empty() {
        shared.records.save_templates(changes).await.map_err(TemplateError::Records)?;
    }
    let taken = shared.snapshots.of_builds();
    let (needed, of_live) = templates.snapshots_needed();
    for (id, sandbox) in taken {
        if !needed.contains(&id) && !of_live.contains(&sandbox) {
            // One that is gone already is gone.
            shared.snapshots.forget(id, &shared.records).await.unwrap_or_default();
        }
    }
    // Without the engine, which ends also while this blocks.
    let templates = shared.templates.clone();
    let removed = spawn_blocking(move || {
        let needed = templates.files_needed();
        templates.files.collect(|name| needed.contains(name))?;
        templates.remove_logs()
    });
    let removed = removed.await.expect("looking at files does not panic");
    removed.map_err(TemplateError::Files)
}

impl Templates {
    /// Forgets outcomes of steps and builds that are too old or too many, and says what is to be
    /// written of that.
    fn forget(
        &self,
        now: Timestamp,
        is_there: impl Fn(atoll_api::id::SnapshotId) -> bool,
    ) -> Vec<TemplateChange> {
        let mut book = self.book();
        let mut by_use: Vec<_> = book
            .steps
            .values()
            .map(|step| (step.used_at, step.key.clone(), step.snapshot))
            .collect();
        by_use.sort();
        let too_many = by_use.len().saturating_sub(self.limits.steps_max);
        let kept_for = self.limits.steps_kept_for;
        let gone = by_use.into_iter().enumerate().filter(|(place, (used_at, _, snapshot))| {
            *place < too_many || used_at.after(kept_for) <= now || !is_there(*snapshot)
        });
        let gone: Vec<_> = gone.map(|(_, (_, key, _))| key).collect();
        let mut changes = Vec::new();
        for key in gone {
            book.steps.remove(&key);
            changes.push(TemplateChange::ForgetStep(key));
        }
        let mut ended: Vec<_> = book
            .builds
            .values()
            .filter(|build| build.shown.state.is_last())
            .map(|build| (build.shown.created_at, build.shown.id))
            .collect();
        ended.sort();
        let too_many = ended.len().saturating_sub(self.limits.builds_kept);
        for (_, id) in ended.drain(..too_many) {
            book.builds.remove(&id);
            changes.push(TemplateChange::ForgetBuild(id));
        }
        changes
    }

    fn next_to_expire(&self) -> Option<Timestamp> {
        let oldest = self.book().steps.values().map(|step| step.used_at).min()?;
        Some(oldest.after(self.limits.steps_kept_for))
    }

    /// Removes logs of builds that are not remembered.
    fn remove_logs(&self) -> std::io::Result<()> {
        for entry in std::fs::read_dir(&self.logs)? {
            let path = entry?.path();
            let id = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
            if id.is_none_or(|id| self.build(id).is_err()) {
                std::fs::remove_file(&path)?;
            }
        }
        Ok(())
    }
}

impl Engine {
    /// Deletes a template with all its versions, or one version of it. What was made of it stays.
    ///
    /// # Errors
    /// If there is none, or it cannot be recorded.
    pub async fn delete_template(&self, wanted: &TemplateRef) -> Result<Template, TemplateError> {
        let shared = self.shared();
        let templates = &shared.templates;
        let _alone = templates.order.lock().await;
        let gone = templates.get(wanted)?;
        let name = wanted.name.clone();
        let change = match wanted.version {
            Some(version) => TemplateChange::ForgetVersion(name, version),
            None => TemplateChange::ForgetName(name),
        };
        shared.records.save_templates(vec![change]).await.map_err(TemplateError::Records)?;
        {
            let mut book = templates.book();
            match (wanted.version, book.names.get_mut(&wanted.name)) {
                (Some(version), Some(named)) => drop(named.versions.remove(&version)),
                _ => drop(book.names.remove(&wanted.name)),
            }
        }
        templates.may_be_garbage();
        Ok(gone)
    }
}
