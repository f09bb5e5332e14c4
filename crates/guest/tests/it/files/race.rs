//! A component that is exchanged for a link, again and again, while operations go
//! through it.

use super::client::SECRET;
use super::{Sandbox, each};
use atoll_protocol::files::Grep;
use atoll_protocol::problem::Code;
use atoll_protocol::request::{Reply, Request};
use rustix::fs::{CWD, RenameFlags};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 200;

/// Ends the other thread, also where an assertion fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Exchanges `/way`, a directory, and `/link`, a link to the outside, while `act`
/// is called, and says how often.
fn while_exchanged(sandbox: &Sandbox, mut act: impl FnMut(usize)) -> u32 {
    let (stop, count) = (AtomicBool::new(false), AtomicU32::new(0));
    let (way, link) = (sandbox.path("way"), sandbox.path("link"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let flags = RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(CWD, &way, CWD, &link, flags).unwrap();
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        let _stop = Stop(&stop);
        for round in 0..ROUNDS {
            act(round);
        }
    });
    count.into_inner()
}

#[test]
fn nothing_outside_is_reached_through_what_is_exchanged() {
    each("files::race::nothing_outside_is_reached_through_what_is_exchanged", || {
        let sandbox = Sandbox::new();
        sandbox.put("way/secret", "inside");
        sandbox.link("link", sandbox.outside());
        sandbox.put("packed/below/unpacked", "inside");
        let archive = sandbox.archive("/packed").body;
        sandbox.remove("/packed", true).done();
        let mut seen = [false; 2];
        let exchanged = while_exchanged(&sandbox, |round| {
            let answer = sandbox.read("/way/secret");
            match &answer.problem {
                None => assert_eq!(answer.text(), "inside"),
                Some(problem) => assert_eq!(problem.code, Code::NotFound, "{problem}"),
            }
            seen[usize::from(answer.problem.is_none())] = true;
            sandbox.write("/way/secret", b"inside");
            sandbox.write(&format!("/way/new{round}"), b"x");
            sandbox.make(&format!("/way/directory{round}/deep"), true);
            sandbox.set_mode("/way/secret", 0o604);
            sandbox.rename(&format!("/way/new{round}"), &format!("/way/moved{round}"), true);
            sandbox.remove(&format!("/way/moved{round}"), false);
            sandbox.remove(&format!("/way/directory{round}"), true);
            sandbox.unpack("/way", &archive);
            let packed = [sandbox.archive("/").body, sandbox.archive("/way").body];
            for packed in packed {
                let has_secret = packed.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
                assert!(!has_secret, "an archive has what is outside");
            }
            for entry in sandbox.list("/", 3, 1000).names() {
                assert!(!entry.starts_with("link/secret/"), "{entry}");
            }
        });
        sandbox.assert_outside_is_as_it_was();
        assert!(exchanged > 100, "exchanged only {exchanged} times");
        assert_eq!(seen, [true, true], "both were met");

        // The control: by name one gets out.
        let mut is_out = false;
        while_exchanged(&sandbox, |_| {
            let until = Instant::now() + Duration::from_secs(5);
            while !is_out && Instant::now() < until {
                let read = std::fs::read_to_string(sandbox.path("way/secret"));
                is_out = read.is_ok_and(|text| text == SECRET);
            }
        });
        assert!(is_out, "without a sandbox the link is met");
    });
}

#[test]
fn a_tree_that_is_exchanged_while_it_is_removed_takes_nothing_outside_along() {
    each(
        "files::race::a_tree_that_is_exchanged_while_it_is_removed_takes_nothing_outside_along",
        || {
            let sandbox = Sandbox::new();
            for round in 0..30 {
                let tree = format!("tree{round}");
                for index in 0..10 {
                    sandbox.put(&format!("{tree}/{index}/file"), "");
                    sandbox.link(&format!("{tree}/{index}.link"), sandbox.outside());
                }
                let stop = AtomicBool::new(false);
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        while !stop.load(Ordering::Relaxed) {
                            for index in 0..10 {
                                let one = sandbox.path(&format!("{tree}/{index}"));
                                let other = sandbox.path(&format!("{tree}/{index}.link"));
                                let flags = RenameFlags::EXCHANGE;
                                rustix::fs::renameat_with(CWD, one, CWD, other, flags).ok();
                            }
                        }
                    });
                    let _stop = Stop(&stop);
                    sandbox.remove(&format!("/{tree}"), true);
                });
                sandbox.assert_outside_is_as_it_was();
            }
        },
    );
}

#[test]
fn a_directory_that_is_exchanged_is_not_searched_or_unpacked_into_outside() {
    let sandbox = Sandbox::new();
    sandbox.put("way/secret", "inside");
    // No other mount is on this way, which would be a wall of its own.
    sandbox.link("link", "../outside");
    sandbox.put("packed/way/unpacked", "inside");
    let archive = sandbox.archive("/packed").body;
    sandbox.remove("/packed", true).done();
    let (mut entered, until) = (0, Instant::now() + Duration::from_secs(5));
    while_exchanged(&sandbox, |_| {
        for _ in 0..10 {
            if Instant::now() > until {
                return;
            }
            let grep = |pattern: &str| {
                let pattern = pattern.to_owned();
                let path = super::client::octets("/");
                let request = Grep { pattern, path, ..super::search::grep("") };
                let answer = sandbox.ask(Request::Grep(request));
                let Some(Reply::Matches { matches, .. }) = answer.reply else {
                    panic!("{answer:?}")
                };
                matches.len()
            };
            assert_eq!(grep(SECRET), 0, "what is outside was found");
            entered += grep("inside");
            sandbox.unpack("/", &archive);
        }
    });
    assert!(entered > 0, "the directory itself was entered");
    sandbox.assert_outside_is_as_it_was();
}
