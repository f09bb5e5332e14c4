//! Packages from npm.

use crate::process;
use crate::workspace;
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The page of the demo; its packages are kept apart from it, since it is copied as it is.
const DEMO: &str = "sdk/demo/app";

/// What the SDK for TypeScript runs on.
const OLDEST_NODE: u32 = 20;

/// The SDK for TypeScript, with what it is built and checked with beside it.
pub(super) struct Package {
    folder: PathBuf,
}

impl Package {
    pub(super) fn install() -> Result<Self> {
        let version = process::output(Command::new("node").arg("--version"))?;
        if major(&version).is_none_or(|major| major < OLDEST_NODE) {
            bail!("Node {OLDEST_NODE} is needed, this is {}", version.trim());
        }
        let folder = workspace::root().join("sdk/typescript");
        install(&folder, &folder)?;
        Ok(Self { folder })
    }

    /// npm in its folder.
    pub(super) fn npm(&self) -> Command {
        let mut npm = Command::new("npm");
        npm.arg("--no-update-notifier").current_dir(&self.folder);
        npm
    }
}

/// The number before the first dot, as in `v20.20.2`.
fn major(version: &str) -> Option<u32> {
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

/// Installs the packages of the demo, or leaves them as they are if they are of its list.
pub(super) fn demo() -> Result<PathBuf> {
    let folder = super::folder()?.join("demo");
    install(&workspace::root().join(DEMO), &folder)?;
    Ok(folder.join("node_modules"))
}

/// Installs what the list in `from` says into another folder.
fn install(from: &Path, folder: &Path) -> Result<()> {
    let wanted = fs::read_to_string(from.join("package-lock.json"))?;
    let made_of = folder.join("node_modules/made-of.txt");
    if fs::read_to_string(&made_of).is_ok_and(|had| had == wanted) {
        return Ok(());
    }
    println!("missing packages of npm: {}", from.display());
    if from != folder {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        for name in ["package.json", "package-lock.json"] {
            fs::copy(from.join(name), folder.join(name))?;
        }
    }
    let mut npm = Command::new("npm");
    // No package runs anything here, and the network is asked for packages alone.
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]);
    process::run(npm.current_dir(folder)).context("npm cannot install")?;
    fs::write(&made_of, wanted).with_context(|| format!("cannot write {}", made_of.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_node_is_read() {
        assert_eq!(major("v20.20.2\n"), Some(20));
        assert_eq!(major("v8"), Some(8));
        assert_eq!(major("20.1"), None);
    }
}
