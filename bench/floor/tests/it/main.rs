//! The floor makes a real jail: else it would be no yardstick.
#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ORDINARY: u32 = 65534;

/// A project with a copy of the program beside it, both open to any user.
struct Scene {
    folder: tempfile::TempDir,
    uid: Option<u32>,
}

impl Scene {
    fn new(uid: Option<u32>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scene = Self { folder, uid };
        fs::set_permissions(scene.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_floor"), scene.program()).unwrap();
        fs::create_dir(scene.project()).unwrap();
        if let Some(uid) = uid {
            chown(scene.project(), Some(uid), Some(uid)).unwrap();
        }
        scene
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("floor")
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.project()).env("HOME", "/root");
        if let Some(uid) = self.uid {
            command.uid(uid).gid(uid);
        }
        command
    }

    fn jailed(&self, script: &str) -> Output {
        self.command(&self.program()).args(["sh", "-c", script]).output().unwrap()
    }

    /// The control: the same without the jail.
    fn bare(&self, script: &str) -> Output {
        self.command(Path::new("sh")).args(["-c", script]).output().unwrap()
    }

    #[track_caller]
    fn prints(&self, script: &str, expect: &str) {
        let output = self.jailed(script);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), expect, "{script}: {stderr}");
    }

    /// Fails in the jail and succeeds outside.
    #[track_caller]
    fn denies(&self, script: &str) {
        let bare = self.bare(script);
        assert!(bare.status.success(), "control of {script}: {bare:?}");
        assert!(!self.jailed(script).status.success(), "{script} succeeded inside");
    }
}

/// As the user who runs the tests, and as an ordinary one where that can be.
fn everyone(test: impl Fn(&Scene)) {
    test(&Scene::new(None));
    // Only root may give a directory away.
    let probe = tempfile::tempdir().unwrap();
    if chown(probe.path(), Some(ORDINARY), Some(ORDINARY)).is_ok() {
        test(&Scene::new(Some(ORDINARY)));
    }
}

#[test]
fn exit_status_passes_through() {
    everyone(|scene| {
        assert_eq!(scene.jailed("exit 7").status.code(), Some(7));
        assert_eq!(scene.jailed("exit 0").status.code(), Some(0));
        assert_eq!(scene.jailed("kill -KILL $$").status.code(), Some(137));
        assert_eq!(scene.jailed("kill -TERM $$").status.code(), Some(143));
        let missing = scene.command(&scene.program()).arg("no-such-program").status().unwrap();
        assert_eq!((missing.code(), missing.signal()), (Some(125), None));
    });
}

#[test]
fn the_command_is_alone_and_without_power() {
    everyone(|scene| {
        scene.prints("echo $$ $PPID", "2 1\n");
        let status = "grep -E '^(Cap(Eff|Prm|Bnd)|NoNewPrivs|Seccomp):' /proc/self/status";
        let output = scene.jailed(status);
        let text = String::from_utf8(output.stdout).unwrap();
        for set in ["CapPrm", "CapEff", "CapBnd"] {
            assert!(text.contains(&format!("{set}:\t0000000000000000")), "{text}");
        }
        assert!(text.contains("NoNewPrivs:\t1") && text.contains("Seccomp:\t2"), "{text}");
    });
}

#[test]
fn only_the_project_reaches_the_host() {
    everyone(|scene| {
        scene.prints("echo text > made; cat made; id -u; stat -c %u made", &{
            let uid = scene.uid.unwrap_or(rustix::process::geteuid().as_raw());
            format!("text\n{uid}\n{uid}\n")
        });
        assert_eq!(fs::read_to_string(scene.project().join("made")).unwrap(), "text\n");
        scene.prints("for d in ~ /tmp /dev/shm; do : > $d/made && echo ok; done", "ok\nok\nok\n");
        scene.prints("ls ~ /dev/shm", "/dev/shm:\n\n/root:\ngo\n");
        // An empty /opt is left out.
        let places = "bin\ndev\netc\nlib\nlib64\nproc\nroot\nrun\nsbin\ntmp\nusr\nvar\n";
        scene.prints("ls / | grep -v '^opt$'", places);
    });
}

#[test]
fn devices_and_loopback_work() {
    everyone(|scene| {
        scene.prints("head -c 3 /dev/zero | wc -c; echo gone > /dev/null", "3\n");
        scene.prints("grep -c 127.0.0.1 /proc/net/fib_trie >/dev/null && echo up", "up\n");
        scene.prints("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '", "lo\n");
    });
}

#[test]
fn the_walls_hold() {
    everyone(|scene| {
        scene.denies("unshare --user true");
        if scene.uid.is_none() && rustix::process::geteuid().is_root() {
            scene.denies("touch /etc/floor-test && rm /etc/floor-test");
            scene.denies("test -e /var/lib");
            scene.denies("test -w /proc/sys/kernel/hostname");
        }
        scene.denies("test -e /sys/kernel");
    });
}
