//! Looking, making, moving, modes, and what is wrong with a path.

use super::client::octets;
use super::{Sandbox, each};
use atoll_protocol::files::{Kind, MakeDirectory};
use atoll_protocol::problem::Code;
use atoll_protocol::request::Request;
use std::os::unix::fs::MetadataExt as _;

#[test]
fn a_name_is_looked_at_with_and_without_its_link() {
    let sandbox = Sandbox::new();
    sandbox.put("file", "four");
    sandbox.link("link", "file");
    let answer = sandbox.look("/link", false);
    assert_eq!(answer.stat().kind, Kind::Link);
    assert_eq!(answer.stat().target, Some(octets("file")));
    let answer = sandbox.look("/link", true);
    assert_eq!((answer.stat().kind, answer.stat().bytes), (Kind::File, 4));
    assert_eq!(answer.stat().path, octets("/link"));
    let modified = sandbox.path("file").metadata().unwrap();
    let expected = modified.mtime() * 1_000_000 + modified.mtime_nsec() / 1000;
    assert_eq!(answer.stat().modified_us, expected);
    assert_eq!(sandbox.look("/", false).stat().kind, Kind::Directory);
    sandbox.look("/nothing", true).refused(Code::NotFound);
    sandbox.look("/file/below", true).refused(Code::Conflict);
}

#[test]
fn bad_paths_are_refused_by_every_operation() {
    let sandbox = Sandbox::new();
    let long = format!("/{}", "x/".repeat(3000));
    for path in ["", "relative", "..", "/..", "/a/../../b", &long] {
        sandbox.read(path).refused(Code::Invalid);
        sandbox.write(path, b"x").refused(Code::Invalid);
        sandbox.list(path, 1, 1).refused(Code::Invalid);
        sandbox.look(path, false).refused(Code::Invalid);
        sandbox.make(path, true).refused(Code::Invalid);
        sandbox.remove(path, true).refused(Code::Invalid);
        sandbox.rename(path, "/b", false).refused(Code::Invalid);
        sandbox.rename("/b", path, false).refused(Code::Invalid);
        sandbox.set_mode(path, 0o700).refused(Code::Invalid);
    }
    sandbox.assert_outside_is_as_it_was();
}

#[test]
fn directories_are_made_one_or_all() {
    each("files::names::directories_are_made_one_or_all", || {
        let sandbox = Sandbox::new();
        assert_eq!(sandbox.make("/one", false).stat().mode, 0o755);
        sandbox.make("/a/b", false).refused(Code::NotFound);
        let request =
            MakeDirectory { path: octets("/a/b/c"), mode: Some(0o1711), make_parents: true };
        assert_eq!(sandbox.ask(Request::MakeDirectory(request)).stat().mode, 0o1711);
        assert_eq!(sandbox.look("/a/b", false).stat().mode, 0o1711);
        // One that is there is not touched.
        assert_eq!(sandbox.make("/a/b/c", false).stat().mode, 0o1711);
        sandbox.make("/", true).stat();
        sandbox.make("/a/./b/../b/d", true).stat();
        assert!(sandbox.path("a/b/d").is_dir());
        sandbox.put("file", "");
        sandbox.make("/file", true).refused(Code::Conflict);
        sandbox.make("/file/below", true).refused(Code::Conflict);
        sandbox.make("/new/../other", true).refused(Code::NotFound);
        sandbox.link("dangling", "elsewhere");
        sandbox.make("/dangling/below", true).refused(Code::Conflict);
        sandbox.make("/dangling", false).refused(Code::Conflict);
    });
}

#[test]
fn names_are_moved() {
    each("files::names::names_are_moved", || {
        let sandbox = Sandbox::new();
        sandbox.put("file", "1");
        sandbox.put("other", "2");
        std::fs::create_dir_all(sandbox.path("d/e")).unwrap();
        assert_eq!(sandbox.rename("/file", "/d/file", false).stat().path, octets("/d/file"));
        sandbox.rename("/other", "/d/file", false).refused(Code::Conflict);
        assert_eq!(sandbox.read("/d/file").text(), "1");
        sandbox.rename("/other", "/d/file", true).stat();
        assert_eq!(sandbox.read("/d/file").text(), "2");
        sandbox.rename("/d", "/d/e/f", false).refused(Code::Invalid);
        sandbox.rename("/nothing", "/x", true).refused(Code::NotFound);
        sandbox.rename("/d/file", "/none/x", true).refused(Code::NotFound);
        sandbox.rename("/", "/x", true).refused(Code::Invalid);
        // A link is moved, not what it leads to.
        sandbox.link("link", "d/file");
        sandbox.rename("/link", "/moved", false).stat();
        assert!(sandbox.path("moved").is_symlink());
        assert_eq!(sandbox.look("/moved", false).stat().kind, Kind::Link);
    });
}

#[test]
fn files_and_links_are_moved_to_another_file_system() {
    let sandbox = Sandbox::new();
    let Some(other) = Other::new(&sandbox) else { return };
    sandbox.put("file", "content");
    sandbox.link("link", "file");
    sandbox.put("tree/file", "x");
    sandbox.set_mode("/file", 0o640).stat();
    let before = sandbox.look("/file", false).stat().clone();

    let to = format!("/{}/file", other.name);
    let after = sandbox.rename("/file", &to, false).stat().clone();
    assert_eq!((after.bytes, after.mode), (7, 0o640));
    assert_eq!(after.modified_us, before.modified_us);
    assert!(!sandbox.path("file").exists());
    assert_eq!(sandbox.read(&to).text(), "content");

    sandbox.put("file", "newer");
    sandbox.rename("/file", &to, false).refused(Code::Conflict);
    assert!(sandbox.path("file").exists());
    sandbox.rename("/file", &to, true).stat();
    assert_eq!(sandbox.read(&to).text(), "newer");

    let answer = sandbox.rename("/link", &format!("/{}/link", other.name), false);
    assert_eq!(answer.stat().target, Some(octets("file")));
    sandbox.rename("/tree", &format!("/{}/tree", other.name), false).refused(Code::Unsupported);
    assert!(sandbox.path("tree/file").exists());
    assert_eq!(sandbox.list(&format!("/{}", other.name), 1, 10).names(), ["file", "link"]);
}

/// A tmpfs of the test's own in the sandbox.
struct Other {
    name: &'static str,
    at: std::path::PathBuf,
}

impl Other {
    fn new(sandbox: &Sandbox) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            atoll_testkit::skip::skip("files-across", "run by an ordinary user");
            return None;
        }
        let at = sandbox.path("other");
        std::fs::create_dir(&at).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("none", &at, "tmpfs", flags, None).unwrap();
        Some(Self { name: "other", at })
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        rustix::mount::unmount(&self.at, rustix::mount::UnmountFlags::DETACH).unwrap();
    }
}

#[test]
fn a_mount_in_a_tree_is_not_emptied_with_it() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("tree")).unwrap();
    let Some(other) = Other::new(&sandbox) else { return };
    sandbox.put("other/file", "kept");
    sandbox.remove("/other", true).refused(Code::Conflict);
    assert_eq!(sandbox.read("/other/file").text(), "kept");
    drop(other);
}

#[test]
fn modes_are_set_of_what_a_link_leads_to() {
    each("files::names::modes_are_set_of_what_a_link_leads_to", || {
        let sandbox = Sandbox::new();
        sandbox.put("file", "");
        sandbox.link("link", "/file");
        assert_eq!(sandbox.set_mode("/link", 0o100_604).stat().mode, 0o604);
        assert_eq!(sandbox.look("/file", false).stat().mode, 0o604);
        for mode in [0o4755, 0o2755] {
            sandbox.set_mode("/file", mode).refused(Code::Denied);
            let request =
                MakeDirectory { path: octets("/made"), mode: Some(mode), make_parents: false };
            sandbox.ask(Request::MakeDirectory(request)).refused(Code::Denied);
        }
        assert_eq!(sandbox.look("/file", false).stat().mode, 0o604);
        assert_eq!(sandbox.set_mode("/", 0o1777).stat().mode, 0o1777);
        sandbox.set_mode("/nothing", 0o700).refused(Code::NotFound);
        if !rustix::process::geteuid().is_root() {
            // Not one's own.
            std::fs::create_dir(sandbox.path("shut")).unwrap();
            sandbox.put("shut/in", "");
            sandbox.set_mode("/shut", 0).stat();
            sandbox.set_mode("/shut/in", 0o600).refused(Code::Denied);
            sandbox.set_mode("/shut", 0o700).stat();
        }
    });
}
