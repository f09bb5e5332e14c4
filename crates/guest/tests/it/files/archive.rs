//! Archives, out and in.

use super::client::octets;
use super::{Sandbox, each};
use atoll_guest::files::Outcome;
use atoll_protocol::frame;
use atoll_protocol::problem::Code;
use atoll_protocol::request::{Event, Reply, Request};
use rustix::fs::{CWD, FileType, Mode};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use tar::{Builder, EntryType, Header};

fn header(kind: EntryType) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_mtime(1_000_000_000);
    header.set_size(0);
    header
}

/// An archive with one entry, whose name and link may be what the tar crate would
/// not write.
fn one(kind: EntryType, name: &str, link: &str, content: &[u8]) -> Vec<u8> {
    let mut header = header(kind);
    let bytes = header.as_gnu_mut().unwrap();
    bytes.name[..name.len()].copy_from_slice(name.as_bytes());
    bytes.linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_size(content.len() as u64);
    header.set_cksum();
    let mut builder = Builder::new(Vec::new());
    builder.append(&header, content).unwrap();
    builder.into_inner().unwrap()
}

#[test]
fn what_is_packed_is_unpacked_as_it_was() {
    each("files::archive::what_is_packed_is_unpacked_as_it_was", || {
        let sandbox = Sandbox::new();
        let long = format!("from/{}/{}", "d".repeat(200), "f".repeat(200));
        sandbox.put("from/a/file", "content");
        sandbox.put(&long, "long");
        sandbox.put("from/big", vec![b'x'; 1_000_000]);
        sandbox.put("from/empty", "");
        sandbox.link("from/a/link", "../../elsewhere");
        sandbox.link("from/far", format!("/{}", "l".repeat(300)));
        std::fs::create_dir(sandbox.path("from/shut")).unwrap();
        sandbox.set_mode("/from/a/file", 0o751).stat();

        let packed = sandbox.archive("/from");
        packed.stat();
        assert!(packed.has_end && packed.events.is_empty(), "{:?}", packed.events);
        let unpacked = sandbox.unpack("/made/to", &packed.body);
        let bytes = 7 + 4 + 1_000_000;
        assert_eq!(unpacked.reply, Some(Reply::Unpacked { entries: 9, bytes }));

        let list = |path| {
            let answer = sandbox.list(path, 9, 100);
            let same = |entry: &atoll_protocol::files::Stat| {
                let path = entry.path.as_path().to_owned();
                (path, entry.kind, entry.bytes, entry.mode, entry.target.clone())
            };
            answer.entries().0.iter().map(same).collect::<Vec<_>>()
        };
        assert_eq!(list("/made/to"), list("/from"));
        let modified = |path: &str| sandbox.path(path).metadata().unwrap().mtime();
        assert_eq!(modified("made/to/a/file"), modified("from/a/file"));
        // Again over what is there.
        sandbox.put("made/to/a/file", "changed");
        sandbox.unpack("/made/to", &packed.body);
        assert_eq!(sandbox.read("/made/to/a/file").text(), "content");
    });
}

#[test]
fn what_others_pack_is_unpacked_and_the_reverse() {
    let sandbox = Sandbox::new();
    sandbox.put("from/a/file", "content");
    std::fs::hard_link(sandbox.path("from/a/file"), sandbox.path("from/other")).unwrap();
    for format in ["gnu", "pax", "ustar"] {
        let mut command = std::process::Command::new("tar");
        command.args(["-c", "--format", format, "-C"]).arg(sandbox.path("from")).arg(".");
        let packed = command.output().unwrap();
        assert!(packed.status.success());
        let to = format!("/{format}");
        assert!(sandbox.unpack(&to, &packed.stdout).problem.is_none());
        assert_eq!(sandbox.read(&format!("{to}/other")).text(), "content");
        let inode = |name: &str| sandbox.path(name).metadata().unwrap().ino();
        assert_eq!(inode(&format!("{to}/other")), inode(&format!("{to}/a/file")));
        assert_eq!(sandbox.list(&to, 9, 100).names(), ["a", "a/file", "other"]);
        // Again: the names of one file are one file again, and no other is left.
        assert!(sandbox.unpack(&to, &packed.stdout).problem.is_none());
        assert_eq!(sandbox.list(&to, 9, 100).names(), ["a", "a/file", "other"]);
    }
    std::fs::write(sandbox.path("packed"), sandbox.archive("/from").body).unwrap();
    std::fs::create_dir(sandbox.path("by-tar")).unwrap();
    let mut command = std::process::Command::new("tar");
    command.arg("-xf").arg(sandbox.path("packed")).arg("-C").arg(sandbox.path("by-tar"));
    assert!(command.status().unwrap().success());
    assert_eq!(sandbox.read("/by-tar/a/file").text(), "content");
}

#[test]
fn what_cannot_be_packed_is_told() {
    each("files::archive::what_cannot_be_packed_is_told", || {
        let sandbox = Sandbox::new();
        sandbox.put("from/file", "x");
        sandbox.put("from/secret", "x");
        sandbox.put("from/shut/in", "x");
        sandbox.set_mode("/from/secret", 0).stat();
        sandbox.set_mode("/from/shut", 0).stat();
        let pipe = sandbox.path("from/pipe");
        rustix::fs::mknodat(CWD, pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let packed = sandbox.archive("/from");
        assert!(packed.has_end);
        let mut left: Vec<_> = packed
            .events
            .iter()
            .map(|event| match event {
                Event::Left { path, code } => (path.to_string(), *code),
                event => panic!("{event:?}"),
            })
            .collect();
        left.sort_by(|one, other| one.0.cmp(&other.0));
        let mut expected = vec![("pipe".to_owned(), Code::Unsupported)];
        if !rustix::process::geteuid().is_root() {
            expected.push(("secret".to_owned(), Code::Denied));
            expected.push(("shut".to_owned(), Code::Denied));
        }
        assert_eq!(left, expected);
        sandbox.set_mode("/from/shut", 0o755).stat();
        sandbox.archive("/from/file").refused(Code::Conflict);
        sandbox.archive("/nothing").refused(Code::NotFound);
    });
}

#[test]
fn names_that_lead_out_and_devices_are_refused() {
    each("files::archive::names_that_lead_out_and_devices_are_refused", || {
        let sandbox = Sandbox::new();
        let outside = sandbox.outside().join("made");
        for name in ["../made", "a/../../made", "a/..", outside.to_str().unwrap()] {
            let archive = one(EntryType::Regular, name, "", b"x");
            sandbox.unpack("/to", &archive).refused(Code::Invalid);
        }
        for kind in [EntryType::Char, EntryType::Block, EntryType::Fifo] {
            sandbox.unpack("/to", &one(kind, "device", "", b"")).refused(Code::Unsupported);
        }
        let secret = sandbox.outside().join("secret");
        sandbox.put("below", "x");
        for link in ["../../outside/secret", "../below", "nothing", secret.to_str().unwrap()] {
            let archive = one(EntryType::Link, "link", link, b"");
            sandbox.unpack("/to", &archive).refused(Code::Invalid);
        }
        assert_eq!(sandbox.list("/to", 9, 10).names(), Vec::<String>::new());
        sandbox.assert_outside_is_as_it_was();
        // The control: a plain name is unpacked.
        let answer = sandbox.unpack("/to", &one(EntryType::Regular, "./a/file", "", b"x"));
        assert_eq!(answer.reply, Some(Reply::Unpacked { entries: 1, bytes: 1 }));
    });
}

#[test]
fn links_are_not_followed_whoever_made_them() {
    each("files::archive::links_are_not_followed_whoever_made_them", || {
        let sandbox = Sandbox::new();
        // In the archive itself.
        let mut archive = one(EntryType::Symlink, "out", "../../outside", b"");
        archive.truncate(512);
        archive.extend(one(EntryType::Regular, "out/made", "", b"x"));
        sandbox.unpack("/to", &archive).refused(Code::Conflict);
        // There before: as a directory, and in the place of a file.
        std::fs::remove_file(sandbox.path("to/out")).unwrap();
        sandbox.link("to/out", sandbox.outside());
        sandbox
            .unpack("/to", &one(EntryType::Regular, "out/made", "", b"x"))
            .refused(Code::Conflict);
        sandbox.unpack("/to", &one(EntryType::Directory, "out", "", b"")).refused(Code::Conflict);
        sandbox.link("to/file", sandbox.outside().join("secret"));
        assert!(
            sandbox.unpack("/to", &one(EntryType::Regular, "file", "", b"x")).problem.is_none()
        );
        assert_eq!(sandbox.read("/to/file").text(), "x");
        assert!(!sandbox.path("to/file").is_symlink());
        sandbox.assert_outside_is_as_it_was();
    });
}

#[test]
fn set_user_id_bits_are_not_unpacked() {
    let sandbox = Sandbox::new();
    let mut header = header(EntryType::Regular);
    header.set_mode(0o6755);
    let mut builder = Builder::new(Vec::new());
    builder.append_data(&mut header, "program", &b""[..]).unwrap();
    sandbox.unpack("/to", &builder.into_inner().unwrap());
    let mode = sandbox.path("to/program").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
}

#[test]
fn a_damaged_or_cut_archive_leaves_no_part_of_a_file() {
    let sandbox = Sandbox::new();
    let archive = one(EntryType::Regular, "file", "", &[b'x'; 2000]);
    sandbox.unpack("/to", &archive[..1500]).refused(Code::Invalid);
    sandbox.unpack("/to", &[b'x'; 512]).refused(Code::Invalid);
    assert_eq!(sandbox.list("/to", 1, 10).names(), Vec::<String>::new());

    let request = atoll_protocol::files::Unpack { path: octets("/to"), make_parents: false };
    let (mut host, worker) = sandbox.start(Request::Unpack(request));
    host.write_all(&frame::header(frame::Kind::Body, 1500)).unwrap();
    host.write_all(&archive[..1500]).unwrap();
    drop(host);
    assert!(matches!(worker.join().unwrap(), Outcome::Lost(_)));
    assert_eq!(sandbox.root().join("to").read_dir().unwrap().count(), 0);
}

#[test]
fn names_too_long_to_be_kept_are_refused() {
    let sandbox = Sandbox::new();
    let mut header = header(EntryType::GNULongName);
    header.set_size(1 << 30);
    header.set_cksum();
    let mut archive = header.as_bytes().to_vec();
    archive.extend([b'n'; 4096]);
    sandbox.unpack("/to", &archive).refused(Code::Invalid);
}
