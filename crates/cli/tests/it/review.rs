//! `atoll diff`, `apply` and `discard` over a session that a real overlay made.

use atoll_store::Format;
use atoll_store::session::{NewSession, Session, Sessions};
use atoll_testkit::clock::wait_for_next_tick;
use atoll_testkit::run::{User, reachable};
use serde_json::Value;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A project, a session and who works on them.
struct Case {
    root: tempfile::TempDir,
    user: User,
    sessions: Sessions,
    id: String,
}

impl Case {
    /// Runs `setup` in a project and `script` in a review session of it, as
    /// `user`.
    fn new(user: User, setup: &str, script: &str) -> Self {
        let root = tempfile::Builder::new().prefix("atoll-review-").tempdir().unwrap();
        let sessions = Sessions::open(&root.path().join("state/atoll")).unwrap();
        let mut case = Self { root, user, sessions, id: String::new() };
        std::fs::create_dir(case.project()).unwrap();
        user.give(case.root.path());
        case.bash(setup);
        // Files made so far are older than the session.
        wait_for_next_tick();
        let mut session = case.start_session();
        session.end().unwrap();
        case.id = session.id().to_owned();
        case.in_session(script);
        case
    }

    fn project(&self) -> PathBuf {
        self.root.path().join("project")
    }

    fn state(&self) -> PathBuf {
        self.root.path().join("state")
    }

    fn session_dir(&self) -> PathBuf {
        self.state().join("atoll/sessions").join(&self.id)
    }

    /// As the user that the case is about.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.project()).env("XDG_STATE_HOME", self.state());
        self.user.become_for(&mut command);
        command
    }

    #[track_caller]
    fn bash(&self, script: &str) {
        let output = self.command("bash").args(["-euc", script]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {errors}");
    }

    /// What `atoll run` does before: made here and handed to the user.
    fn start_session(&self) -> Session {
        let format = if self.user == User::Root { Format::Trusted } else { Format::User };
        let masked = [PathBuf::from("hidden")].into();
        let new = NewSession {
            project: &self.project(),
            format,
            masked,
            written_by: None,
            apply_asks: None,
        };
        let session = self.sessions.create(&new).unwrap();
        // Root's sessions belong to the owner of the project as they are.
        if self.user == User::Ordinary {
            self.user.give(&self.state());
        }
        session
    }

    fn in_session(&self, script: &str) {
        let (unshare, options) =
            if self.user == User::Root { ("-m", "redirect_dir=on") } else { ("-rm", "userxattr") };
        let script = format!(
            "mount -t overlay o -o lowerdir=$PWD,upperdir=$1/upper,workdir=$1/work,{options} $PWD; cd $PWD; {script}"
        );
        let output = self
            .command("unshare")
            .args([unshare, "bash", "-euc", &script, "-"])
            .arg(self.session_dir())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn atoll(&self, args: &[&str]) -> Output {
        self.command(program()).args(args).output().unwrap()
    }

    #[track_caller]
    fn stdout(&self, args: &[&str]) -> String {
        let output = self.atoll(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Expects a failure; gives the status and what it said.
    #[track_caller]
    fn fails(&self, args: &[&str]) -> (i32, String) {
        let output = self.atoll(args);
        assert!(!output.status.success(), "{args:?} succeeded");
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.project().join(path)).unwrap()
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        // Modes of overlays' own directories keep an ordinary user from cleaning up.
        Command::new("chmod").args(["-R", "u+rwX"]).arg(self.root.path()).output().ok();
    }
}

/// Runs a test as each user there can be.
fn each_user(test: impl Fn(User)) {
    User::all().into_iter().for_each(test);
}

/// The program, where every user can run it.
fn program() -> PathBuf {
    reachable(Path::new(env!("CARGO_BIN_EXE_atoll")))
}

#[test]
fn a_diff_is_one_that_git_applies() {
    each_user(|user| {
        let case = Case::new(
            user,
            "printf 'a\\nb\\nc\\n' > f; echo old > gone; printf x > bin; echo s > hidden; mkdir d; chmod 755 d; chmod 644 f gone bin",
            "printf 'a\\nB\\nc' > f; rm gone; mkdir n; echo new > n/f; chmod 644 n/f; ln -s f l; printf '\\0' > bin; chmod 700 d",
        );
        let diff = case.stdout(&["diff"]);
        assert_eq!(
            diff,
            "diff --git a/bin b/bin\nBinary files a/bin and b/bin differ\n\
             P directory d mode 0755 to 0700\n\
             diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n-c\n+B\n+c\n\\ No newline at end of file\n\
             diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n\
             diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+f\n\\ No newline at end of file\n\
             A directory n mode 0755\n\
             diff --git a/n/f b/n/f\nnew file mode 100644\n--- /dev/null\n+++ b/n/f\n@@ -0,0 +1 @@\n+new\n"
        );
        assert_eq!(case.stdout(&["diff", "--name-only"]), "bin\nd\nf\ngone\nl\nn\nn/f\n");
        let stat = case.stdout(&["diff", "--stat", &case.id]);
        assert!(
            stat.contains("M f | +2 -2\n") && stat.ends_with("7 changed, 0 risky, 0 in conflict\n"),
            "{stat}"
        );
        // git takes it, without the binary file.
        let text: String = diff.lines().skip(2).map(|line| format!("{line}\n")).collect();
        std::fs::write(case.root.path().join("patch"), text).unwrap();
        case.bash("cp -r . ../copy; cd ../copy; git init -q; git apply ../patch; test $(cat n/f) = new; test ! -e gone; test -L l");
    });
}

#[test]
fn json_tells_all_of_it() {
    each_user(|user| {
        let case = Case::new(
            user,
            "echo a > a",
            "mkdir -p .github/workflows; echo ci > .github/workflows/ci.yml; echo n > $'x\\n\\xff'; mkfifo p",
        );
        let json: Value = serde_json::from_str(&case.stdout(&["diff", "--json"])).unwrap();
        assert_eq!(json["session"]["id"], case.id.as_str());
        let paths: Vec<_> =
            json["changes"].as_array().unwrap().iter().map(|c| c["path"].clone()).collect();
        assert_eq!(
            paths,
            [".github", ".github/workflows", ".github/workflows/ci.yml", "x\\x0a\\xff"]
        );
        assert_eq!(json["changes"][2]["risks"][0]["kind"], "ci");
        assert_eq!(json["rejected"][0]["path"], "p");
        let list: Value =
            serde_json::from_str(&case.stdout(&["diff", "--list", "--json"])).unwrap();
        assert_eq!(list["sessions"][0]["id"], case.id.as_str());
        assert_eq!(list["sessions"][0]["running_pid"], Value::Null);
    });
}

#[test]
fn an_applied_session_is_gone_and_the_project_has_it() {
    each_user(|user| {
        let case =
            Case::new(user, "echo a > a; echo s > hidden", "echo A > a; mkdir d; echo n > d/n");
        let json: Value = serde_json::from_str(&case.stdout(&["apply", "--json"])).unwrap();
        assert_eq!(json["applied"], serde_json::json!(["a", "d", "d/n"]));
        assert_eq!(json["session_removed"], true);
        assert_eq!(
            (case.read("a"), case.read("d/n"), case.read("hidden")),
            ("A\n".into(), "n\n".into(), "s\n".into())
        );
        assert!(!case.session_dir().exists());
        let (status, errors) = case.fails(&["apply"]);
        assert_eq!(status, 125);
        assert!(errors.contains("no review session of a project that holds"), "{errors}");
    });
}

#[test]
fn risky_files_have_to_be_confirmed() {
    each_user(|user| {
        let case = Case::new(
            user,
            "echo a > a",
            "echo A > a; echo 'all:' > Makefile; echo '{\"scripts\":{}}' > package.json",
        );
        let (status, errors) = case.fails(&["apply"]);
        assert_eq!(status, 1);
        assert!(errors.contains("  A Makefile: is run by the next build\n"), "{errors}");
        assert!(errors.contains("  A package.json: changes scripts"), "{errors}");
        assert!(errors.contains("--yes"), "{errors}");
        assert_eq!(case.read("a"), "a\n");
        // Paths without a risk need no confirmation.
        case.stdout(&["apply", "a"]);
        assert_eq!(case.read("a"), "A\n");
        case.stdout(&["apply", &case.id, "--yes"]);
        assert_eq!(case.read("Makefile"), "all:\n");
    });
}

#[test]
fn a_conflict_is_named_and_loses_nothing() {
    each_user(|user| {
        let case = Case::new(user, "echo a > a; echo b > b", "echo A > a; echo B > b");
        case.bash("echo host > a");
        let (status, errors) = case.fails(&["apply"]);
        assert_eq!(status, 1);
        assert!(
            errors.contains("conflict: a changed on the host since the session started"),
            "{errors}"
        );
        assert_eq!((case.read("a"), case.read("b")), ("host\n".into(), "B\n".into()));
        assert!(case.session_dir().exists());
        case.stdout(&["apply", "--force", "a", "--keep"]);
        assert_eq!(case.read("a"), "A\n");
        assert_eq!(case.read(&format!("a.orig-{}", case.id)), "host\n");
        assert!(case.session_dir().exists());
        case.stdout(&["apply"]);
        assert!(!case.session_dir().exists());
    });
}

#[test]
fn paths_are_those_of_the_current_directory() {
    each_user(|user| {
        let case = Case::new(
            user,
            "mkdir -p d/e; echo 1 > d/1; echo 2 > 2; echo 3 > d/e/3",
            "echo x > d/1; echo x > 2; echo x > d/e/3",
        );
        let here = |args: &[&str]| {
            case.command(program())
                .current_dir(case.project().join("d/e"))
                .args(args)
                .output()
                .unwrap()
        };
        assert!(here(&["apply", "../1"]).status.success());
        assert_eq!(
            (case.read("d/1"), case.read("2"), case.read("d/e/3")),
            ("x\n".into(), "2\n".into(), "3\n".into())
        );
        assert_eq!(here(&["apply", "../../.."]).status.code(), Some(1));
        let unchanged = here(&["apply", "nothing"]);
        assert_eq!(unchanged.status.code(), Some(1));
        assert!(
            String::from_utf8_lossy(&unchanged.stderr)
                .contains("no change of the session is at d/e/nothing")
        );
        assert!(here(&["apply", "."]).status.success());
        assert_eq!((case.read("2"), case.read("d/e/3")), ("2\n".into(), "x\n".into()));
    });
}

#[test]
fn a_discarded_session_leaves_no_trace() {
    each_user(|user| {
        let case = Case::new(
            user,
            "echo a > a",
            "echo A > a; mkdir -p s/t; echo x > s/t/x; chmod 000 s/t/x s/t s",
        );
        case.bash("mkdir .atoll-apply-$0".replace("$0", &case.id).as_str());
        assert_eq!(case.stdout(&["discard"]), "");
        assert_eq!(case.read("a"), "a\n");
        let entries = |path: &Path| std::fs::read_dir(path).unwrap().count();
        assert_eq!(
            (entries(&case.project()), entries(&case.state().join("atoll/sessions"))),
            (1, 0)
        );
        assert_eq!(case.fails(&["discard", &case.id]).0, 1);
    });
}

#[test]
fn a_running_session_can_only_be_looked_at() {
    each_user(|user| {
        let case = Case::new(user, "echo a > a", "echo A > a");
        // The newest counts, and it is run by this process.
        let running = case.start_session();
        for command in ["apply", "discard"] {
            let (status, errors) = case.fails(&[command]);
            assert_eq!(status, 1);
            assert!(
                errors.contains(&format!("session {} is still running", running.id())),
                "{errors}"
            );
        }
        let output = case.atoll(&["diff"]);
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains("still running"));
        assert!(case.stdout(&["diff", "--list"]).contains("running as"));
    });
}

#[test]
fn root_applies_for_the_owner_of_the_project() {
    if !rustix::process::geteuid().is_root() {
        atoll_testkit::skip::skip("review-as-root", "run by an ordinary user");
        return;
    }
    let case = Case::new(
        User::Root,
        "echo a > a; chown -R 1000:1000 .",
        "setpriv --reuid 1000 --regid 1000 --clear-groups bash -euc 'echo A > a; mkdir d; echo n > d/n; ln -s n d/l'",
    );
    case.stdout(&["apply"]);
    for path in ["a", "d", "d/n", "d/l"] {
        let found = case.project().join(path).symlink_metadata().unwrap();
        assert_eq!((found.uid(), found.gid()), (1000, 1000), "{path}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    each_user(|user| {
        let case = Case::new(user, "echo a > a", "seq 200000 > a");
        let script = format!("set -o pipefail; {} diff | head -n 1", program().display());
        let output = case.command("bash").args(["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    });
}
