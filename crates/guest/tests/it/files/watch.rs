//! Watching.

use super::client::octets;
use super::{Sandbox, each};
use atoll_guest::files::Outcome;
use atoll_protocol::files::{Change, Watch};
use atoll_protocol::frame::{Decoder, Kind};
use atoll_protocol::problem::{Code, Problem};
use atoll_protocol::request::{Event, Reply, Request};
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A watch that has begun.
struct Watching {
    host: UnixStream,
    decoder: Decoder,
    worker: JoinHandle<Outcome>,
}

impl Watching {
    fn start(sandbox: &Sandbox, path: &str, recursive: bool) -> Self {
        let (host, worker) = sandbox.start(Request::Watch(Watch { path: octets(path), recursive }));
        host.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut watching = Self { host, decoder: Decoder::default(), worker };
        assert_eq!(watching.next(), Some(Said::Reply(Reply::Done)));
        watching
    }

    /// What is said next, heartbeats left out; none at the end.
    fn next(&mut self) -> Option<Said> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            assert!(Instant::now() < deadline, "nothing but heartbeats");
            while let Some(frame) = self.decoder.next().unwrap() {
                return Some(match frame.kind {
                    Kind::Reply => Said::Reply(frame.json().unwrap()),
                    Kind::Event => Said::Event(frame.json().unwrap()),
                    Kind::Problem => Said::Problem(frame.json().unwrap()),
                    Kind::End => Said::End,
                    Kind::Heartbeat => continue,
                    kind => panic!("a {kind:?} frame"),
                });
            }
            match self.host.read(self.decoder.space()).unwrap() {
                0 => return None,
                length => self.decoder.filled(length),
            }
        }
    }

    /// Everything that is told up to this change, as `+made`, `-removed`, …
    fn until(&mut self, last: &str) -> Vec<String> {
        let mut told = Vec::new();
        loop {
            let line = match self.next() {
                Some(Said::Event(Event::Changed { path, change, is_directory })) => {
                    let sign = match change {
                        Change::Made => '+',
                        Change::Modified => '~',
                        Change::Written => '=',
                        Change::Attributes => '%',
                        Change::Removed => '-',
                    };
                    format!("{sign}{path}{}", if is_directory { "/" } else { "" })
                }
                Some(Said::Event(Event::Overflowed)) => "overflowed".to_owned(),
                Some(Said::Event(Event::Unwatched { path, code })) => format!("!{path} {code:?}"),
                said => panic!("{said:?} after {told:?}"),
            };
            told.push(line);
            if told.last().is_some_and(|line| line == last) {
                return told;
            }
        }
    }

    fn stop(self) {
        drop(self.host);
        assert!(matches!(self.worker.join().unwrap(), Outcome::Done | Outcome::Lost(_)));
    }
}

#[derive(Debug, PartialEq)]
enum Said {
    Reply(Reply),
    Event(Event),
    Problem(Problem),
    End,
}

#[test]
fn changes_are_told() {
    each("files::watch::changes_are_told", || {
        let sandbox = Sandbox::new();
        sandbox.put("d/below/there", "x");
        let mut watching = Watching::start(&sandbox, "/d", true);
        sandbox.put("d/file", "x");
        assert_eq!(watching.until("=file"), ["+file", "~file", "=file"]);
        std::fs::rename(sandbox.path("d/file"), sandbox.path("d/below/moved")).unwrap();
        assert_eq!(watching.until("+below/moved"), ["-file", "+below/moved"]);
        sandbox.set_mode("/d/below/moved", 0o600).stat();
        assert_eq!(watching.until("%below/moved"), ["%below/moved"]);
        std::fs::remove_file(sandbox.path("d/below/there")).unwrap();
        assert_eq!(watching.until("-below/there").last().unwrap(), "-below/there");
        watching.stop();
    });
}

#[test]
fn directories_that_come_and_go_are_followed() {
    each("files::watch::directories_that_come_and_go_are_followed", || {
        let sandbox = Sandbox::new();
        sandbox.put("other/in/file", "x");
        std::fs::create_dir(sandbox.path("d")).unwrap();
        let mut watching = Watching::start(&sandbox, "/d", true);
        // However fast it is filled.
        sandbox.put("d/a/b/c/file", "x");
        let told = watching.until("+a/b/c/file");
        for expected in ["+a/", "+a/b/", "+a/b/c/"] {
            assert!(told.iter().any(|line| line == expected), "{expected}: {told:?}");
        }
        std::fs::rename(sandbox.path("other"), sandbox.path("d/other")).unwrap();
        assert!(watching.until("+other/in/file").contains(&"+other/".to_owned()));
        // Moved within: it is told under its new name.
        std::fs::rename(sandbox.path("d/other"), sandbox.path("d/new")).unwrap();
        watching.until("+new/in/file");
        sandbox.put("d/new/in/again", "x");
        watching.until("=new/in/again");
        // Moved out: it is not told of any more.
        std::fs::rename(sandbox.path("d/new"), sandbox.path("away")).unwrap();
        watching.until("-new/");
        sandbox.put("away/in/unseen", "x");
        std::fs::remove_dir_all(sandbox.path("d/a")).unwrap();
        let told = watching.until("-a/");
        assert!(!told.iter().any(|line| line.contains("unseen")), "{told:?}");
        watching.stop();
    });
}

#[test]
fn one_directory_alone_can_be_watched() {
    let sandbox = Sandbox::new();
    sandbox.put("d/below/file", "x");
    let mut watching = Watching::start(&sandbox, "/d", false);
    sandbox.put("d/below/file", "y");
    sandbox.put("d/made/file", "y");
    sandbox.put("d/last", "y");
    assert_eq!(watching.until("+last"), ["+made/", "+last"]);
    watching.stop();
}

#[test]
fn links_are_not_followed_out() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("d")).unwrap();
    sandbox.link("d/before", sandbox.outside());
    let mut watching = Watching::start(&sandbox, "/d", true);
    sandbox.link("d/after", sandbox.outside());
    std::fs::write(sandbox.path("d/before/new"), "").unwrap();
    std::fs::remove_file(sandbox.path("d/after/new")).unwrap();
    sandbox.put("d/last", "x");
    assert_eq!(watching.until("=last"), ["+after", "+last", "~last", "=last"]);
    watching.stop();
    let problem = sandbox.ask(Request::Watch(Watch { path: octets("/d/before"), recursive: true }));
    problem.refused(Code::NotFound);
    sandbox.put("file", "");
    let problem = sandbox.ask(Request::Watch(Watch { path: octets("/file"), recursive: false }));
    problem.refused(Code::Conflict);
}

#[test]
fn more_than_the_kernel_keeps_is_told_as_such_and_the_watch_goes_on() {
    let sandbox = Sandbox::new();
    let queue = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let queue: usize = queue.trim().parse().unwrap();
    let mut watching = Watching::start(&sandbox, "/", true);
    // Nobody reads, so the worker waits.
    for index in 0..queue {
        let path = sandbox.path(&format!("file{index}"));
        std::fs::write(&path, "").unwrap();
        std::fs::remove_file(path).unwrap();
    }
    std::fs::create_dir_all(sandbox.path("made/meanwhile")).unwrap();
    watching.until("overflowed");
    // It is looked through again, before or after it is made: one of them is told.
    sandbox.put("made/meanwhile/file", "x");
    std::fs::write(sandbox.path("last"), "").unwrap();
    watching.until("+last");
    sandbox.put("made/meanwhile/other", "x");
    watching.until("+made/meanwhile/other");
    watching.stop();
}

#[test]
fn the_end_of_the_directory_ends_the_watch() {
    let sandbox = Sandbox::new();
    let remove = |path| std::fs::remove_dir(path).unwrap();
    let rename = |path| std::fs::rename(path, sandbox.path("away")).unwrap();
    let ends: [&dyn Fn(std::path::PathBuf); 2] = [&remove, &rename];
    for end in ends {
        std::fs::create_dir(sandbox.path("d")).unwrap();
        let mut watching = Watching::start(&sandbox, "/d", true);
        end(sandbox.path("d"));
        assert_eq!(watching.next(), Some(Said::End));
        assert_eq!(watching.next(), None);
        assert!(matches!(watching.worker.join().unwrap(), Outcome::Done));
    }
}

#[test]
fn a_directory_that_cannot_be_watched_is_told() {
    each("files::watch::a_directory_that_cannot_be_watched_is_told", || {
        let sandbox = Sandbox::new();
        std::fs::create_dir(sandbox.path("shut")).unwrap();
        sandbox.set_mode("/shut", 0).stat();
        let mut watching = Watching::start(&sandbox, "/", true);
        if !rustix::process::geteuid().is_root() {
            watching.until("!shut Denied");
        }
        sandbox.put("file", "");
        watching.until("+file");
        watching.stop();
        sandbox.set_mode("/shut", 0o700).stat();
    });
}
