//! What works on this host: features, and what follows for each tier.

mod apparmor;
mod json;
mod text;
mod tiers;

#[cfg(test)]
mod tests;

pub(crate) use apparmor::{path_warning, profile};
pub(crate) use json::json;
pub(crate) use text::{Color, text};

use atoll_jail::features::{Facts, Feature, Probes, survey};
use std::ffi::OsString;
use std::path::Path;
use tiers::{Tier, Verdict};

/// What only the environment tells.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    /// `PATH`.
    pub(crate) search_path: OsString,
    /// An editor made the container that this runs in.
    pub(crate) is_devcontainer: bool,
}

/// Everything that is shown.
#[derive(Debug)]
pub(crate) struct Diagnosis {
    facts: Facts,
    features: Vec<Feature>,
    /// The container tier first.
    tiers: Vec<Tier>,
    notes: Vec<String>,
    took_us: u128,
}

impl Diagnosis {
    /// Pure.
    fn new(facts: Facts, probes: &Probes, is_devcontainer: bool) -> Self {
        Self {
            features: survey(&facts, probes),
            tiers: tiers::judge(&facts, probes),
            notes: notes(&facts, is_devcontainer),
            took_us: probes.took.as_micros(),
            facts,
        }
    }

    /// Whether the container tier works.
    pub(crate) fn is_fit(&self) -> bool {
        self.tiers.first().is_some_and(|tier| tier.verdict != Verdict::No)
    }
}

/// Looks at this host and tries what a sandbox needs.
pub(crate) fn diagnose(own_path: &Path, surroundings: &Surroundings) -> Diagnosis {
    let facts = Facts::read(Path::new("/"), own_path);
    let probes = Probes::run(&surroundings.search_path);
    Diagnosis::new(facts, &probes, surroundings.is_devcontainer)
}

/// What follows from where this runs.
fn notes(facts: &Facts, is_devcontainer: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(manager) = &facts.container {
        notes.push(format!(
            "This is a {manager} container. A sandbox is made inside of it: it can use what the \
             container was given, and the container's own settings decide whether it can be made."
        ));
    }
    if is_devcontainer {
        notes.push(
            "This is a development container. Its settings belong into devcontainer.json: \
             \"runArgs\": [\"--security-opt=seccomp=unconfined\", \
             \"--security-opt=apparmor=unconfined\", \"--security-opt=systempaths=unconfined\"]"
                .to_owned(),
        );
    }
    match facts.wsl {
        Some(1) => notes.push(
            "This is WSL 1, which has no Linux kernel. In Windows: wsl --set-version NAME 2"
                .to_owned(),
        ),
        Some(_) => notes.push(
            "This is WSL 2. Windows programs cannot be started from inside a sandbox. A project \
             below /mnt lies on a Windows file system: slow, and not for review mode; keep it in \
             the Linux home directory."
                .to_owned(),
        ),
        None => {}
    }
    notes
}
