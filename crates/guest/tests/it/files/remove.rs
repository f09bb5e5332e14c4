//! Removing.

use super::{Sandbox, each};
use atoll_protocol::problem::Code;
use rustix::fs::{Mode, OFlags};

#[test]
fn names_are_removed() {
    each("files::remove::names_are_removed", || {
        let sandbox = Sandbox::new();
        sandbox.put("file", "");
        sandbox.put("tree/a/b/file", "");
        sandbox.put("kept/file", "");
        sandbox.link("link", "kept");
        sandbox.link("tree/a/up", "../../kept");
        sandbox.link("tree/out", sandbox.outside());
        std::fs::create_dir(sandbox.path("empty")).unwrap();
        sandbox.remove("/file", false).done();
        sandbox.remove("/link", true).done();
        sandbox.remove("/empty", false).done();
        sandbox.remove("/tree", false).refused(Code::Conflict);
        sandbox.remove("/tree", true).done();
        sandbox.remove("/tree", true).refused(Code::NotFound);
        sandbox.remove("/", true).refused(Code::Invalid);
        sandbox.remove("/kept/.", true).refused(Code::Invalid);
        sandbox.remove("/kept/..", true).refused(Code::Invalid);
        assert_eq!(sandbox.list("/", 9, 10).names(), ["kept", "kept/file"]);
        sandbox.assert_outside_is_as_it_was();
    });
}

#[test]
fn shut_directories_are_removed_by_their_owner() {
    each("files::remove::shut_directories_are_removed_by_their_owner", || {
        let sandbox = Sandbox::new();
        for (index, mode) in [0, 0o500, 0o300, 0o555].into_iter().enumerate() {
            sandbox.put(&format!("tree/{index}/in/file"), "");
            sandbox.set_mode(&format!("/tree/{index}/in"), mode).stat();
            sandbox.set_mode(&format!("/tree/{index}"), mode).stat();
        }
        sandbox.set_mode("/tree", 0o500).stat();
        sandbox.remove("/tree", true).done();
        assert!(!sandbox.path("tree").exists());
    });
}

#[test]
fn a_tree_that_is_deeper_than_any_path_is_removed() {
    let sandbox = Sandbox::new();
    let mut at = rustix::fs::open(sandbox.root(), OFlags::PATH, Mode::empty()).unwrap();
    for _ in 0..3000 {
        rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
        rustix::fs::mkdirat(&at, "e", Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, "d", OFlags::PATH, Mode::empty()).unwrap();
    }
    drop(at);
    sandbox.remove("/d", true).done();
    assert_eq!(sandbox.list("/", 1, 10).names(), ["e"]);
}

#[test]
fn a_wide_tree_is_removed() {
    let sandbox = Sandbox::new();
    for index in 0..500 {
        sandbox.put(&format!("tree/{index}/file"), "");
        sandbox.put(&format!("tree/{index}.file"), "");
    }
    sandbox.remove("/tree", true).done();
    assert_eq!(sandbox.list("/", 1, 10).names(), Vec::<String>::new());
}
