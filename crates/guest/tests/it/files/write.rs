//! Writing and reading.

use super::client::{octets, writing};
use super::{Sandbox, each};
use atoll_guest::files::{Lost, Outcome};
use atoll_protocol::files::{Existing, Kind, Read, Write};
use atoll_protocol::frame;
use atoll_protocol::problem::Code;
use atoll_protocol::request::Request;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};

fn mode(sandbox: &Sandbox, path: &str) -> u32 {
    sandbox.path(path).metadata().unwrap().mode() & 0o7777
}

#[test]
fn what_is_written_is_read() {
    each("files::write::what_is_written_is_read", || {
        let sandbox = Sandbox::new();
        let answer = sandbox.write("/new", b"content");
        let stat = answer.stat();
        assert_eq!((stat.kind, stat.bytes, stat.mode), (Kind::File, 7, 0o644));
        assert_eq!(stat.path, octets("/new"));
        assert_eq!(stat.uid, rustix::process::geteuid().as_raw());
        assert_eq!(sandbox.read("/new").text(), "content");
        assert_eq!(sandbox.list("/", 1, 10).names(), ["new"]);
        sandbox.write("/empty", b"").stat();
        assert_eq!(sandbox.read("/empty").text(), "");
    });
}

#[test]
fn a_part_can_be_read() {
    let sandbox = Sandbox::new();
    sandbox.put("digits", "0123456789");
    let part = |offset, length| {
        let answer = sandbox.ask(Request::Read(Read { path: octets("/digits"), offset, length }));
        answer.text().to_owned()
    };
    assert_eq!(part(3, Some(4)), "3456");
    assert_eq!(part(8, None), "89");
    assert_eq!(part(8, Some(100)), "89");
    assert_eq!(part(10, None), "");
    assert_eq!(part(u64::MAX, None), "");
    assert_eq!(part(u64::MAX, Some(u64::MAX)), "");
    assert_eq!(part(0, Some(0)), "");
}

#[test]
fn what_is_replaced_keeps_its_mode_and_is_whole_at_every_time() {
    each("files::write::what_is_replaced_keeps_its_mode_and_is_whole_at_every_time", || {
        let sandbox = Sandbox::new();
        sandbox.put("script", "old");
        let script = sandbox.path("script");
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o751)).unwrap();
        let (mut host, worker) =
            sandbox.start(Request::Write(Write { mode: Some(0o600), ..writing("/script") }));
        host.write_all(&frame::header(frame::Kind::Body, 3)).unwrap();
        host.write_all(b"new").unwrap();
        assert_eq!(std::fs::read_to_string(&script).unwrap(), "old");
        host.write_all(&frame::header(frame::Kind::End, 0)).unwrap();
        assert!(matches!(worker.join().unwrap(), Outcome::Done));
        assert_eq!(std::fs::read_to_string(&script).unwrap(), "new");
        assert_eq!(mode(&sandbox, "script"), 0o751);
        assert_eq!(sandbox.list("/", 1, 10).names(), ["script"]);
    });
}

#[test]
fn a_host_that_goes_leaves_the_old_file_and_nothing_else() {
    each("files::write::a_host_that_goes_leaves_the_old_file_and_nothing_else", || {
        for existing in [Existing::Replace, Existing::Append] {
            let sandbox = Sandbox::new();
            sandbox.put("file", "old");
            let request = Request::Write(Write { existing, ..writing("/file") });
            let (mut host, worker) = sandbox.start(request);
            host.write_all(&frame::header(frame::Kind::Body, 3)).unwrap();
            host.write_all(b"new").unwrap();
            drop(host);
            let outcome = worker.join().unwrap();
            assert!(matches!(outcome, Outcome::Lost(Lost::Gone)), "{outcome:?}");
            assert_eq!(sandbox.read("/file").text(), "old");
            assert_eq!(sandbox.root().read_dir().unwrap().count(), 1);
        }
    });
}

#[test]
fn what_is_there_is_kept_or_added_to_if_so_asked() {
    each("files::write::what_is_there_is_kept_or_added_to_if_so_asked", || {
        let sandbox = Sandbox::new();
        let write = |existing, content: &[u8]| {
            let request = Request::Write(Write { existing, ..writing("/file") });
            sandbox.ask_with(request, Some(content))
        };
        write(Existing::Keep, b"one").stat();
        write(Existing::Keep, b"other").refused(Code::Conflict);
        let before = sandbox.path("file").metadata().unwrap().ino();
        assert_eq!(write(Existing::Append, b" two").stat().bytes, 7);
        assert_eq!(sandbox.read("/file").text(), "one two");
        assert_eq!(sandbox.path("file").metadata().unwrap().ino(), before);
        std::fs::remove_file(sandbox.path("file")).unwrap();
        write(Existing::Append, b"new").stat();
        assert_eq!(sandbox.read("/file").text(), "new");
    });
}

#[test]
fn a_file_in_a_directory_that_is_read_only_can_be_added_to() {
    each("files::write::a_file_in_a_directory_that_is_read_only_can_be_added_to", || {
        let sandbox = Sandbox::new();
        sandbox.put("shut/log", "a");
        std::fs::set_permissions(sandbox.path("shut"), PermissionsExt::from_mode(0o555)).unwrap();
        let request = Request::Write(Write { existing: Existing::Append, ..writing("/shut/log") });
        sandbox.ask_with(request, Some(b"b")).stat();
        assert_eq!(sandbox.read("/shut/log").text(), "ab");
        if !rustix::process::geteuid().is_root() {
            sandbox.write("/shut/log", b"c").refused(Code::Denied);
        }
        std::fs::set_permissions(sandbox.path("shut"), PermissionsExt::from_mode(0o755)).unwrap();
    });
}

#[test]
fn directories_on_the_way_are_made_if_so_asked() {
    each("files::write::directories_on_the_way_are_made_if_so_asked", || {
        let sandbox = Sandbox::new();
        sandbox.write("/a/b/c", b"x").refused(Code::NotFound);
        let request = Request::Write(Write { make_parents: true, ..writing("/a/b/c") });
        sandbox.ask_with(request, Some(b"x")).stat();
        assert_eq!(sandbox.read("/a/b/c").text(), "x");
        assert_eq!(mode(&sandbox, "a/b"), 0o755);
    });
}

#[test]
fn a_link_at_the_end_is_written_through() {
    let sandbox = Sandbox::new();
    sandbox.put("real/file", "old");
    sandbox.link("link", "real/file");
    sandbox.link("real/again", "/link");
    sandbox.write("/real/again", b"new").stat();
    assert_eq!(sandbox.read("/real/file").text(), "new");
    assert!(sandbox.path("link").is_symlink());
    sandbox.link("dangling", "real/made");
    sandbox.write("/dangling", b"made").stat();
    assert_eq!(sandbox.read("/real/made").text(), "made");
    sandbox.link("loop", "loop");
    sandbox.write("/loop", b"x").refused(Code::Denied);
}

#[test]
fn a_problem_reaches_a_host_that_goes_on_sending() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("directory")).unwrap();
    sandbox.write("/directory", &vec![0; 4 << 20]).refused(Code::Conflict);
    sandbox.write("/directory/", b"x").refused(Code::Invalid);
    sandbox.write("/directory/.", b"x").refused(Code::Conflict);
    sandbox.write("/nothing/here", &vec![0; 4 << 20]).refused(Code::NotFound);
}

#[test]
fn set_user_id_bits_are_denied_and_not_kept() {
    each("files::write::set_user_id_bits_are_denied_and_not_kept", || {
        let sandbox = Sandbox::new();
        let request = Write { mode: Some(0o4755), ..writing("/new") };
        sandbox.ask_with(Request::Write(request), Some(b"x")).refused(Code::Denied);
        sandbox.put("program", "old");
        std::fs::set_permissions(sandbox.path("program"), PermissionsExt::from_mode(0o4755))
            .unwrap();
        assert_eq!(mode(&sandbox, "program"), 0o4755, "the control");
        sandbox.write("/program", b"new").stat();
        assert_eq!(mode(&sandbox, "program"), 0o755);
    });
}

#[test]
fn what_root_replaces_stays_its_owners() {
    if !rustix::process::geteuid().is_root() {
        return atoll_testkit::skip::skip("files-owner", "run by an ordinary user");
    }
    let sandbox = Sandbox::new();
    sandbox.put("file", "old");
    std::os::unix::fs::chown(sandbox.path("file"), Some(7), Some(8)).unwrap();
    assert_eq!(sandbox.write("/file", b"new").stat().uid, 7);
    assert_eq!(sandbox.path("file").metadata().unwrap().gid(), 8);
}
