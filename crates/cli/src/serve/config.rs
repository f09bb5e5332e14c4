//! The file in which the operator of a server says what sandboxes may: what holds where a request
//! says nothing, the most that one may ask for, what building templates may take, and budgets.
//!
//! Keys that are not known are refused: a cap that is misspelt would be none.

use crate::error::CliError;
use atoll_api::budget::{Budget, BudgetPeriod, parse_memory};
use atoll_api::policy::{Bytes, Cpus, parse_duration};
use atoll_api::sandbox::{Lifecycle, Limits};
use atoll_engine::Config;
use atoll_engine::backend::Capabilities;
use atoll_engine::budgets::Rule;
use atoll_engine::lifecycle::{Caps, Defaults};
use atoll_engine::templates;
use serde::{Deserialize, Deserializer, de::Error as _};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Largest file that is read, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    defaults: Settings,
    caps: Settings,
    templates: Templates,
    volumes: Volumes,
    #[serde(rename = "budget")]
    budgets: Vec<SharedBudget>,
}

/// Times and limits.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    #[serde(deserialize_with = "time")]
    lease: Option<Duration>,
    #[serde(deserialize_with = "time")]
    idle_stop: Option<Duration>,
    #[serde(deserialize_with = "time")]
    archive_after: Option<Duration>,
    #[serde(deserialize_with = "time")]
    delete_after: Option<Duration>,
    #[serde(deserialize_with = "time")]
    max_lifetime: Option<Duration>,
    #[serde(deserialize_with = "text")]
    memory: Option<Bytes>,
    #[serde(deserialize_with = "cpus")]
    cpus: Option<Cpus>,
    pids: Option<u64>,
    #[serde(deserialize_with = "text")]
    disk: Option<Bytes>,
}

/// What building templates may take.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Templates {
    builds_at_once: Option<usize>,
    builds: Option<usize>,
    builds_kept: Option<usize>,
    #[serde(deserialize_with = "time")]
    build_timeout: Option<Duration>,
    steps: Option<usize>,
    #[serde(deserialize_with = "time")]
    steps_kept_for: Option<Duration>,
    #[serde(deserialize_with = "text")]
    files: Option<Bytes>,
    #[serde(deserialize_with = "text")]
    log: Option<Bytes>,
}

/// What volumes may be.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Volumes {
    host_folders: Vec<PathBuf>,
}

/// A budget of all sandboxes with certain labels.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SharedBudget {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    every: Option<BudgetPeriod>,
    #[serde(default, deserialize_with = "time")]
    cpu: Option<Duration>,
    #[serde(default, deserialize_with = "memory")]
    memory: Option<u64>,
    #[serde(default, deserialize_with = "text")]
    sent: Option<Bytes>,
    #[serde(default, deserialize_with = "text")]
    received: Option<Bytes>,
}

/// Reads a file; without one everything is as usual.
pub(super) fn read(path: Option<&Path>) -> Result<File, CliError> {
    let Some(path) = path else { return Ok(File::default()) };
    let failed = || CliError::new(format!("cannot use the settings in {}", path.display()));
    let file = std::fs::File::open(path).map_err(|error| failed().because(error))?;
    let mut text = String::new();
    let mut limited = std::io::Read::take(file, BYTES_MAX + 1);
    std::io::Read::read_to_string(&mut limited, &mut text)
        .map_err(|error| failed().because(error))?;
    if text.len() as u64 > BYTES_MAX {
        return Err(failed().hint(format!("it has more than {BYTES_MAX} bytes")));
    }
    let parsed: File = toml::from_str(&text).map_err(|error| failed().because(error))?;
    parsed.check().map_err(|what| failed().hint(what))?;
    Ok(parsed)
}

/// Whether this host enforces what is said, for all who ask for nothing else.
pub(super) fn check(config: &Config, can: &Capabilities) -> Result<(), CliError> {
    let limits = [&config.caps.limits, &config.defaults.limits];
    let lacks = limits.into_iter().find_map(|limits| can.lacks(limits));
    let budgets = config.budgets.iter().find_map(|rule| can.lacks_of(&rule.budget));
    let Some(flag) = lacks.or(budgets) else { return Ok(()) };
    Err(CliError::new(format!("this host does not enforce what the settings say: it lacks {flag}"))
        .hint("leave it out of the settings; `atoll doctor` says what works on this host"))
}

impl File {
    /// What is wrong beside the form.
    fn check(&self) -> Result<(), String> {
        for folder in &self.volumes.host_folders {
            // A link could be led elsewhere later, by whoever may write where it lies.
            let real = folder.canonicalize();
            let real = real.map_err(|error| format!("{}: {error}", folder.display()))?;
            if real != *folder || !real.is_dir() {
                return Err(format!(
                    "{} is not the absolute path, without symbolic links, of a folder",
                    folder.display()
                ));
            }
        }
        for (place, budget) in self.budgets.iter().enumerate() {
            let name = &budget.name;
            if self.budgets[..place].iter().any(|other| other.name == *name) {
                return Err(format!("two budgets are called {name}"));
            }
            if name.is_empty() {
                return Err("a budget has no name".to_owned());
            }
            let amounts = budget.amounts();
            if amounts.is_empty() {
                return Err(format!(
                    "the budget {name} limits nothing: say cpu, memory, sent or received"
                ));
            }
            amounts.validate(name).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Whether sandboxes can be archived in their time, if it says when that is.
    pub(super) fn needs_archives(&self, has_place: bool) -> Result<(), CliError> {
        let said = self.defaults.archive_after.or(self.caps.archive_after).is_some();
        if has_place || !said {
            return Ok(());
        }
        Err(CliError::new("the settings say archive_after, and there is no place for archives")
            .hint("serve with --archive URL, or leave archive_after out of the settings"))
    }

    /// The settings of the engine, of which it says some.
    pub(super) fn apply(&self, config: Config) -> Config {
        let usual = config.templates;
        let said = &self.templates;
        Config {
            defaults: Defaults {
                lifecycle: self.defaults.lifecycle(),
                limits: self.defaults.limits(),
            },
            caps: Caps { lifecycle: self.caps.lifecycle(), limits: self.caps.limits() },
            templates: templates::Limits {
                builds_at_once: said.builds_at_once.unwrap_or(usual.builds_at_once),
                builds_max: said.builds.unwrap_or(usual.builds_max),
                builds_kept: said.builds_kept.unwrap_or(usual.builds_kept),
                build_timeout: said.build_timeout.unwrap_or(usual.build_timeout),
                steps_max: said.steps.unwrap_or(usual.steps_max),
                steps_kept_for: said.steps_kept_for.unwrap_or(usual.steps_kept_for),
                files_bytes_max: said.files.map_or(usual.files_bytes_max, |size| size.0),
                log_bytes_max: said.log.map_or(usual.log_bytes_max, |size| {
                    usize::try_from(size.0).unwrap_or(usize::MAX)
                }),
            },
            budgets: self.budgets.iter().map(SharedBudget::rule).collect(),
            host_folders: self.volumes.host_folders.clone(),
            ..config
        }
    }
}

impl Settings {
    fn lifecycle(&self) -> Lifecycle {
        let ms = |time: Option<Duration>| time.map(crate::commands::wanted::ms);
        Lifecycle {
            lease_ms: ms(self.lease),
            idle_stop_ms: ms(self.idle_stop),
            archive_after_ms: ms(self.archive_after),
            delete_after_ms: ms(self.delete_after),
            max_lifetime_ms: ms(self.max_lifetime),
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            memory_bytes: self.memory.map(|size| size.0),
            cpus_milli: self.cpus.map(|cpus| u64::from(cpus.milli)),
            pids: self.pids,
            disk_bytes: self.disk.map(|size| size.0),
        }
    }
}

impl SharedBudget {
    fn amounts(&self) -> Budget {
        Budget {
            cpu_us: self.cpu.map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX)),
            memory_mib_seconds: self.memory,
            bytes_sent: self.sent.map(|size| size.0),
            bytes_received: self.received.map(|size| size.0),
        }
    }

    fn rule(&self) -> Rule {
        Rule {
            name: self.name.clone(),
            labels: self.labels.clone(),
            period: self.every,
            budget: self.amounts(),
        }
    }
}

/// A value that is written as text, of which 0 is none.
fn text<'de, D: Deserializer<'de>, T: FromStr>(from: D) -> Result<Option<T>, D::Error>
where
    T::Err: std::fmt::Display,
{
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(D::Error::custom)
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    let time = parse_duration(&text).map_err(D::Error::custom)?;
    if time.is_zero() {
        return Err(D::Error::custom(format!("{text} is no time: leave it out for no end")));
    }
    Ok(Some(time))
}

fn memory<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(from)?;
    parse_memory(&text).map(Some).map_err(D::Error::custom)
}

fn cpus<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Cpus>, D::Error> {
    let number = f64::deserialize(from)?;
    Cpus::new(number).map(Some).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.toml");
        std::fs::write(&path, text).unwrap();
        let file = read(Some(&path)).map_err(|error| format!("{error:#?}"))?;
        Ok(file.apply(Config::default()))
    }

    #[test]
    fn the_example_of_the_docs_is_understood() {
        let docs = include_str!("../../../../docs/serve.md");
        let example = docs.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let config = parse(example).unwrap();
        assert_eq!(config.defaults.lifecycle.idle_stop_ms, Some(30 * 60 * 1000));
        assert_eq!(config.defaults.limits.cpus_milli, Some(2000));
        assert_eq!(config.caps.lifecycle.max_lifetime_ms, Some(7 * 86_400_000));
        assert_eq!(config.caps.limits.memory_bytes, Some(16 << 30));
        assert_eq!(config.templates.builds_at_once, 4);
        assert_eq!(config.host_folders, [PathBuf::from("/srv")]);
        assert_eq!(config.templates.builds_kept, Config::default().templates.builds_kept);
        let [red, all] = &config.budgets[..] else { panic!("there are two") };
        assert_eq!((red.name.as_str(), red.period), ("red", Some(BudgetPeriod::Day)));
        assert_eq!(red.budget.cpu_us, Some(10 * 3600 * 1_000_000));
        assert_eq!(red.budget.memory_mib_seconds, Some(64 * 1024 * 3600));
        assert!(all.labels.is_empty() && all.budget.bytes_sent == Some(100 << 30));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, said) in [
            ("[caps]\nleases = \"1h\"", "leases"),
            ("[caps]\nlease = 5", "invalid type"),
            ("[caps]\nlease = \"0s\"", "is no time"),
            ("[defaults]\ncpus = 0.0", "cpus"),
            ("[[budget]]\nname = \"a\"", "limits nothing"),
            ("[[budget]]\nname = \"\"\ncpu = \"1h\"", "has no name"),
            (
                "[[budget]]\nname = \"a\"\ncpu = \"1h\"\n[[budget]]\nname = \"a\"\ncpu = \"1h\"",
                "two",
            ),
            ("[[budget]]\nname = \"a\"\nmemory = \"1GiB\"", "SIZE*TIME"),
            ("[[budget]]\nname = \"a\"\nevery = \"year\"\ncpu = \"1h\"", "year"),
            ("[volumes]\nhost_folders = [\"/nowhere\"]", "no such file"),
            ("[volumes]\nhost_folders = [\"/proc/self\"]", "without symbolic links"),
            ("[volumes]\nhost_folders = [\"/etc/passwd\"]", "of a folder"),
            ("[templates", "expected"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.to_lowercase().contains(&said.to_lowercase()), "{text}: {error}");
        }
        for part in ["defaults", "caps"] {
            let file: File = toml::from_str(&format!("[{part}]\narchive_after = \"1d\"")).unwrap();
            assert!(file.needs_archives(true).is_ok() && file.needs_archives(false).is_err());
        }
        assert!(read(Some(Path::new("/nowhere/serve.toml"))).is_err());
        let usual = read(None).unwrap().apply(Config::default());
        assert!(usual.budgets.is_empty() && usual.caps.lifecycle == Lifecycle::default());
    }
}
