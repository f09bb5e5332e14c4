//! The SDK for Python: where it is checked and tested.

use crate::process;
use crate::workspace;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// What the checks are made with, and what the SDK needs, all with versions.
const REQUIREMENTS: &str = "sdk/python/requirements.txt";

/// A virtual environment.
pub(super) struct Environment {
    folder: PathBuf,
}

impl Environment {
    /// Makes it, or leaves it as it is if it was made of the same list.
    pub(super) fn make() -> Result<Self> {
        let folder = super::folder()?.join("python");
        let list = workspace::root().join(REQUIREMENTS);
        let wanted = fs::read_to_string(&list).with_context(|| format!("no {REQUIREMENTS}"))?;
        let environment = Self { folder };
        let made_of = environment.folder.join("made-of.txt");
        if fs::read_to_string(&made_of).is_ok_and(|had| had == wanted) {
            return Ok(environment);
        }
        println!("missing tools of Python: the SDK for it");
        let mut make = Command::new("/usr/bin/python3");
        process::run(make.args(["-m", "venv", "--clear"]).arg(&environment.folder))?;
        let mut install = environment.pip();
        process::run(install.arg("--requirement").arg(&list))
            .with_context(|| format!("pip cannot install {REQUIREMENTS}"))?;
        fs::write(&made_of, wanted)?;
        Ok(environment)
    }

    /// The interpreter, in the SDK's folder.
    pub(super) fn python(&self) -> Command {
        let mut python = Command::new(self.folder.join("bin/python"));
        // Nothing is written beside the sources.
        python.arg("-B").current_dir(sources());
        python
    }

    fn pip(&self) -> Command {
        let mut pip = self.python();
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        pip
    }

    /// Installs the SDK as it is now, as its users do, but by the tools that are here.
    pub(super) fn install_sdk(&self) -> Result<()> {
        let mut install = self.pip();
        install.args(["--no-index", "--no-deps", "--no-build-isolation", "--force-reinstall"]);
        process::run(install.arg("."))
    }

    /// Types, and whether the synchronous half is what the other one makes of it.
    pub(super) fn checks(&self) -> Result<Vec<Command>> {
        let mut types = self.python();
        types.args(["-m", "mypy", "--strict", "--cache-dir"]).arg(super::folder()?.join("mypy"));
        let mut generated = self.python();
        generated.args(["unasync.py", "--check"]);
        let mut demo = self.python();
        demo.args(["-m", "mypy", "--strict", "--cache-dir"])
            .arg(super::folder()?.join("mypy-demo"));
        demo.arg("../demo").env("MYPYPATH", "tests");
        Ok(vec![types, demo, generated])
    }
}

fn sources() -> PathBuf {
    workspace::root().join("sdk/python")
}
