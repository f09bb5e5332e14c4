//! Other programs that a tier would use, found and asked for their version.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// More is no version.
const OUTPUT_MAX: usize = 4 << 10;

/// A program that is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    pub path: PathBuf,
    /// The first line of what `--version` prints; `None` where that failed or
    /// took too long.
    pub version: Option<String>,
}

/// Looks for `name` in the directories of `path` (a `PATH`) and asks it for its
/// version, for at most `time`.
pub fn find_tool(name: &str, path: &OsStr, time: Duration) -> Option<Tool> {
    // A relative directory would run whatever the project brings along.
    let dirs = std::env::split_paths(path).filter(|dir| dir.is_absolute());
    let path = dirs.map(|dir| dir.join(name)).find(|file| is_program(file))?;
    let version = ask_version(&path, time);
    Some(Tool { path, version })
}

fn is_program(file: &Path) -> bool {
    let mode = rustix::fs::Access::EXEC_OK;
    std::fs::metadata(file).is_ok_and(|data| data.is_file())
        && rustix::fs::access(file, mode).is_ok()
}

fn ask_version(program: &Path, time: Duration) -> Option<String> {
    let mut child = Command::new(program)
        .arg("--version")
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // A group of its own, so that all it starts can be ended.
        .process_group(0)
        .spawn()
        .ok()?;
    let output = read_until(&mut child, Instant::now() + time);
    let group = Pid::from_child(&child);
    // The program is not collected yet, so the group's number is still its own.
    kill_process_group(group, Signal::KILL).ok();
    child.wait().ok()?;
    let output = output?;
    let line = output.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().filter(|c| !c.is_control()).take(100).collect())
}

/// What the child prints until it closes its output; `None` at the deadline.
fn read_until(child: &mut Child, end: Instant) -> Option<String> {
    let stdout = child.stdout.as_mut()?;
    let mut output = Vec::new();
    let mut part = [0; 512];
    while output.len() < OUTPUT_MAX {
        let left = end.saturating_duration_since(Instant::now());
        let time = Timespec::try_from(left).ok()?;
        let ready = poll(&mut [PollFd::new(stdout, PollFlags::IN)], Some(&time));
        match ready {
            Ok(0) => return None,
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return None,
        }
        match stdout.read(&mut part).ok()? {
            0 => break,
            count => output.extend_from_slice(part.get(..count)?),
        }
    }
    Some(String::from_utf8_lossy(&output).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn program(script: &str) -> (tempfile::TempDir, Option<Tool>, Duration) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("runsc");
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let start = Instant::now();
        let tool = find_tool("runsc", dir.path().as_os_str(), Duration::from_millis(500));
        (dir, tool, start.elapsed())
    }

    #[test]
    fn a_version_is_the_first_line() {
        let (dir, tool, _) = program("echo; echo 'runsc version 1'; echo spec: 2");
        let tool = tool.unwrap();
        assert_eq!(tool.path, dir.path().join("runsc"));
        assert_eq!(tool.version.as_deref(), Some("runsc version 1"));
    }

    #[test]
    fn a_program_that_hangs_or_fails_has_no_version() {
        let (_dir, tool, took) = program("sleep 600 & exec sleep 600");
        assert_eq!(tool.unwrap().version, None);
        assert!(took < Duration::from_secs(20), "{took:?}");
        let (_dir, tool, _) = program("exit 1");
        assert_eq!(tool.unwrap().version, None);
    }

    #[test]
    fn relative_directories_and_files_that_do_not_run_are_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("runsc"), "").unwrap();
        let time = Duration::from_millis(500);
        assert_eq!(find_tool("runsc", dir.path().as_os_str(), time), None);
        assert_eq!(find_tool("sh", OsStr::new("bin:."), time), None);
        assert!(find_tool("sh", OsStr::new("bin:/bin"), time).is_some());
    }
}
