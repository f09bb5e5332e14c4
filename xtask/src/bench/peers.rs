//! Sandboxes of others that stay: a container of crun's, and many of bubblewrap's.

use crate::process;
use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A container that runs, of the machine's own programs.
pub(super) struct Crun {
    folder: PathBuf,
    name: String,
}

impl Crun {
    pub(super) fn start(folder: &Path) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            bail!("crun is set up here by root alone");
        }
        let root = folder.join("rootfs");
        for directory in ["usr", "proc", "dev", "sys", "tmp"] {
            fs::create_dir_all(root.join(directory))?;
        }
        for name in ["bin", "lib", "lib64", "sbin"] {
            std::os::unix::fs::symlink(format!("usr/{name}"), root.join(name))?;
        }
        process::output(Command::new("crun").arg("spec").current_dir(folder))?;
        let path = folder.join("config.json");
        let mut config: Value = serde_json::from_slice(&fs::read(&path)?)?;
        config["process"]["terminal"] = json!(false);
        config["process"]["args"] = json!(["/bin/sleep", "100000"]);
        let mounts = config["mounts"].as_array_mut().context("it has mounts")?;
        // Nor can it show them.
        mounts.retain(|mount| mount["type"] != "cgroup");
        mounts.push(json!({
            "destination": "/usr", "source": "/usr", "type": "none",
            "options": ["rbind", "ro"],
        }));
        fs::write(&path, config.to_string())?;
        let name = format!("atoll-bench-{}", std::process::id());
        let crun = Self { folder: folder.to_owned(), name };
        // It refuses to start where both versions of cgroups have controllers.
        let script = "umount --lazy /sys/fs/cgroup/unified 2>/dev/null; exec \"$@\"";
        let mut run = Command::new("unshare");
        let start = crun.command();
        run.args(["--mount", "--", "/bin/sh", "-c", script, "sh"]).arg(start.get_program());
        run.args(start.get_args()).args(["run", "--detach", "--bundle"]);
        run.arg(folder).arg(&crun.name);
        // It would keep a pipe open for as long as the container is there.
        let status = run.stdin(Stdio::null()).stdout(Stdio::null()).status();
        let status = status.context("cannot start crun")?;
        ensure!(status.success(), "crun run: {status}");
        Ok(crun)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("/usr/bin/crun");
        command.arg("--cgroup-manager=disabled").arg("--root").arg(self.folder.join("state"));
        command
    }

    /// Runs a command in it, and gives how long that took.
    pub(super) fn exec(&self, program: &str) -> Result<Duration> {
        let mut command = self.command();
        command.arg("exec").arg(&self.name).arg(program).stdin(Stdio::null());
        let begin = Instant::now();
        let status = command.stdout(Stdio::null()).status()?;
        let took = begin.elapsed();
        ensure!(status.success(), "crun exec: {status}");
        Ok(took)
    }
}

impl Drop for Crun {
    fn drop(&mut self) {
        let mut delete = self.command();
        process::succeeds(delete.args(["delete", "--force"]).arg(&self.name));
    }
}

/// A sandbox in which `cat` runs; it ends with this.
pub(super) struct Bubble(Child);

impl Bubble {
    /// Starts one, and waits until something in it answers.
    pub(super) fn start(bubblewrap: &[std::ffi::OsString]) -> Result<Self> {
        let mut command = Command::new(&bubblewrap[0]);
        command.args(&bubblewrap[1..]).arg("/bin/cat").env_clear();
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut bubble = Self(child.context("cannot start bubblewrap")?);
        let (input, output) = (bubble.0.stdin.as_mut(), bubble.0.stdout.as_mut());
        input.context("stdin is piped")?.write_all(b"!")?;
        output.context("stdout is piped")?.read_exact(&mut [0])?;
        Ok(bubble)
    }
}

impl Drop for Bubble {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().ok();
    }
}
