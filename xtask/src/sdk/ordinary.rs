//! Tests as an ordinary user, where root runs the checks.

use crate::soak::ORDINARY;
use crate::workspace;
use anyhow::{Context as _, Result};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where an ordinary user finds the repository and the tools, whatever is in front of them.
pub(super) struct Place {
    folder: tempfile::TempDir,
    tools: PathBuf,
}

impl Place {
    pub(super) fn make(tools: &Path, program: &Path) -> Result<Self> {
        fs::create_dir_all(tools).with_context(|| format!("cannot make {}", tools.display()))?;
        let folder = tempfile::Builder::new().prefix("atoll-sdk-").tempdir()?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let place = Self { folder, tools: tools.to_owned() };
        for name in ["repository", "tools", "home"] {
            fs::create_dir(place.path(name))?;
        }
        chown(place.path("home"), Some(ORDINARY), Some(ORDINARY))?;
        fs::copy(program, place.path("atoll")).context("cannot copy the program")?;
        Ok(place)
    }

    /// A path below the place: `repository`, `tools`, `home` or, the program, `atoll`.
    pub(super) fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    /// A command to whose name and arguments, to be added, the place is mounted.
    pub(super) fn command(&self) -> Command {
        let script = format!(
            "set -e\n\
             mount --bind \"$1\" \"$2/repository\"\n\
             mount --bind \"$3\" \"$2/tools\"\n\
             place=$2; shift 3\n\
             exec setpriv --reuid {ORDINARY} --regid {ORDINARY} --clear-groups \
               env HOME=\"$place/home\" \"$@\""
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "/bin/sh", "-c", &script, "sh"]);
        command.current_dir("/").arg(workspace::root()).arg(self.folder.path()).arg(&self.tools);
        command
    }
}
