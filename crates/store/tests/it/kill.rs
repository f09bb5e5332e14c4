//! An apply that is killed, wherever it is, can be repeated and loses nothing.

use super::support::{Case, as_root_and_user, is_root};
use atoll_store::node::Time;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const BASE: &str = "STORE_TEST_BASE";
const STARTED: &str = "STORE_TEST_STARTED";

const SETUP: &str = "mkdir -p del/deep keep ro kind again; \
    for i in $(seq 60); do echo old $i > keep/$i; echo d > del/deep/$i; echo k > kind/$i; echo a > again/$i; done; \
    echo f > file; mkdir ro/in; echo r > ro/r; echo r > ro/in/r; chmod 555 ro/in ro";

const SESSION: &str = "for i in $(seq 60); do echo new $i > keep/$i; done; rm -r del; rm -r kind; echo kind > kind; \
    rm file; mkdir file; for i in $(seq 40); do echo n > file/$i; ln file/$i file/link$i; done; \
    rm -r again; mkdir again; echo new > again/new; echo a > again/1; \
    chmod 755 ro ro/in; echo n > ro/n; rm ro/r; echo n > ro/in/n; chmod 555 ro/in; chmod 511 ro; \
    mkdir -p shut/in; for i in $(seq 40); do echo s > shut/in/$i; done; chmod 400 shut/in/1; chmod 500 shut/in shut";

/// With moved directories, which only root's mounts have.
const SETUP_MOVED: &str = "mkdir -p a/sub b; for i in $(seq 40); do echo a $i > a/$i; echo b $i > b/$i; echo s > a/sub/$i; done; ln -s x a/l";
const SESSION_MOVED: &str =
    "mv a t; mv b a; mv t b; mv b/sub moved; echo more >> b/1; rm a/2; echo n > a/n";

#[test]
fn a_killed_apply_can_be_repeated() {
    fn body() {
        let moved = is_root();
        let (setup, session) = if moved {
            (format!("{SETUP}; {SETUP_MOVED}"), format!("{SESSION}; {SESSION_MOVED}"))
        } else {
            (SETUP.to_owned(), SESSION.to_owned())
        };
        let make = || {
            // In memory: waiting for a disk would be most of the time.
            let case = Case::new_in(Path::new("/dev/shm"), &setup);
            case.in_session(&session);
            case
        };
        let mut cut_short = 0;
        for sign in SIGNS.iter().filter(|sign| moved || !sign.contains("moved")) {
            let case = make();
            let before = case.listed().len();
            Applying::start(&case).kill_when(&case, sign);
            let left = case.listed().len();
            cut_short += u32::from(left > 0 && left < before);
            // And once more, as soon as it works on the project again.
            Applying::start(&case).kill_when(&case, SIGNS[1]);
            let outcome = case.apply();
            assert_eq!(outcome.conflicts, [], "killed when {sign}");
            case.check_content_is_as_seen();
            assert_eq!(case.listed(), Vec::<String>::new());
            case.on_host("test -z \"$(find . -name '.atoll*')\"");
        }
        assert!(cut_short > 3, "{cut_short} applies were killed half way");
    }
    as_root_and_user("kill::a_killed_apply_can_be_repeated", body);
}

/// Signs of how far an apply is, in their order: paths of the case that are there,
/// or with a `!` are not there any more.
const SIGNS: &[&str] = &[
    "upper/moved/1",
    "project/.atoll-apply-ses_0123456789abcdef",
    "project/.atoll-apply-ses_0123456789abcdef/200",
    "project/again/new",
    "project/file/1",
    "project/file/link9",
    "project/moved/20",
    "project/ro/in/n",
    "project/ro/n",
    "project/shut",
    "project/shut/in/30",
    "!project/again/2",
    "!project/again/60",
    "!project/del",
    "!project/ro/r",
];

/// A process that is about to apply a case.
struct Applying {
    process: std::process::Child,
}

impl Applying {
    fn start(case: &Case) -> Self {
        let started = case.started.unwrap();
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::apply_in_place", "--ignored", "--nocapture"])
            .env(BASE, &case.base)
            .env(STARTED, format!("{}.{}", started.sec, started.nsec))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        while !line.ends_with("ready\n") {
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "it ended early: {line}");
        }
        // Kept open: the rest of its output would be an error otherwise.
        process.stdout = Some(output.into_inner());
        Self { process }
    }

    fn kill_when(mut self, case: &Case, sign: &str) {
        let (path, wanted) = sign.strip_prefix('!').map_or((sign, true), |path| (path, false));
        let deadline = Instant::now() + Duration::from_secs(60);
        while case.base.join(path).symlink_metadata().is_ok() != wanted {
            assert!(Instant::now() < deadline, "{sign} did not come");
            if self.process.try_wait().unwrap().is_some() {
                break;
            }
        }
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
#[ignore = "the inner half of a_killed_apply_can_be_repeated"]
fn apply_in_place() {
    let started = std::env::var(STARTED).unwrap();
    let (sec, nsec) = started.split_once('.').unwrap();
    let started = Time { sec: sec.parse().unwrap(), nsec: nsec.parse().unwrap() };
    let base = std::env::var_os(BASE).unwrap();
    let case = Case::around(base.into(), started);
    println!("ready");
    case.apply();
}
