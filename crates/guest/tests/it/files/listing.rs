//! Listing.

use super::{Sandbox, each};
use atoll_protocol::files::{ENTRIES_MAX, Kind};
use atoll_protocol::frame::JSON_BYTES_MAX;
use atoll_protocol::problem::Code;
use std::os::unix::ffi::OsStrExt as _;

#[test]
fn a_tree_is_listed_sorted_to_a_depth() {
    let sandbox = Sandbox::new();
    for file in ["b/y/deep", "b/x", "a", "b.c", "c/z"] {
        sandbox.put(file, "");
    }
    sandbox.link("to", "b");
    assert_eq!(sandbox.list("/", 1, 100).names(), ["a", "b", "b.c", "c", "to"]);
    let all = ["a", "b", "b/x", "b/y", "b/y/deep", "b.c", "c", "c/z", "to"];
    assert_eq!(sandbox.list("/", 64, 100).names(), all);
    assert_eq!(sandbox.list("/b", 1, 100).names(), ["x", "y"]);
    assert_eq!(sandbox.list("/to/", 1, 100).names(), ["x", "y"]);
    let listing = sandbox.list("/", 1, 100);
    let link = listing.entries().0.last().unwrap();
    assert_eq!(
        (link.kind, link.target.as_ref().map(ToString::to_string)),
        (Kind::Link, Some("b".into()))
    );
}

#[test]
fn what_is_cut_is_the_deepest_and_the_last() {
    let sandbox = Sandbox::new();
    for file in ["a/1", "a/2", "b/1", "c"] {
        sandbox.put(file, "");
    }
    let cut = |limit| {
        let answer = sandbox.list("/", 9, limit);
        (answer.names().join(" "), answer.entries().1)
    };
    assert_eq!(cut(2), ("a b".into(), true));
    assert_eq!(cut(3), ("a b c".into(), true));
    assert_eq!(cut(4), ("a a/1 b c".into(), true));
    assert_eq!(cut(6), ("a a/1 a/2 b b/1 c".into(), false));
    let answer = sandbox.list("/", 1, 3);
    assert_eq!(answer.entries().0.len(), 3);
    assert!(!answer.entries().1);
}

#[test]
fn limits_out_of_range_are_refused() {
    let sandbox = Sandbox::new();
    for (depth, limit) in [(0, 1), (65, 1), (1, 0), (1, ENTRIES_MAX + 1)] {
        sandbox.list("/", depth, limit).refused(Code::Invalid);
    }
    sandbox.put("file", "");
    sandbox.list("/file", 1, 1).refused(Code::Conflict);
    sandbox.list("/nothing", 1, 1).refused(Code::NotFound);
}

#[test]
fn an_answer_fits_into_a_frame_whatever_the_names_are() {
    let sandbox = Sandbox::new();
    // Six bytes each in JSON, or two in hexadecimal.
    for index in 0..3000 {
        let mut name = vec![1; 200];
        name.extend(format!("{index:05}").bytes());
        std::fs::write(sandbox.root().join(std::ffi::OsStr::from_bytes(&name)), "").unwrap();
        let other = [&b"\xff"[..], &name].concat();
        std::fs::write(sandbox.root().join(std::ffi::OsStr::from_bytes(&other)), "").unwrap();
    }
    let answer = sandbox.list("/", 1, ENTRIES_MAX);
    let (entries, is_cut) = answer.entries();
    assert!(is_cut);
    assert!(entries.len() > 2000, "{}", entries.len());
    let bytes: usize = entries.iter().map(|entry| entry.path.as_bytes().len()).sum();
    assert!(bytes < JSON_BYTES_MAX);
}

#[test]
fn a_directory_that_may_not_be_read_is_told() {
    each("files::listing::a_directory_that_may_not_be_read_is_told", || {
        let sandbox = Sandbox::new();
        sandbox.put("shut/in", "");
        sandbox.put("open/in", "");
        sandbox.set_mode("/shut", 0).stat();
        let answer = sandbox.list("/", 2, 100);
        if rustix::process::geteuid().is_root() {
            assert_eq!(answer.names(), ["open", "open/in", "shut", "shut/in"]);
        } else {
            assert_eq!(answer.names(), ["open", "open/in", "shut"]);
            let unread: Vec<_> = answer.entries().0.iter().map(|entry| entry.unread).collect();
            assert_eq!(unread, [None, None, Some(Code::Denied)]);
            sandbox.list("/shut", 1, 1).refused(Code::Denied);
        }
        sandbox.set_mode("/shut", 0o755).stat();
    });
}
