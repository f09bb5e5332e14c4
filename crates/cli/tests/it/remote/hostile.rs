//! `atoll cp` from a sandbox whose archives are an attacker's: a server of the test's own
//! sends what no sandbox's guest would.

use super::each;
use atoll_testkit::run::{Project, Ran};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tar::{EntryType, Header};

/// An archive whose entries are as they are given, however wrong.
#[derive(Default)]
struct Archive(Vec<u8>);

impl Archive {
    fn add(mut self, kind: EntryType, name: &str, link: &str, mode: u32, content: &str) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        header.set_mtime(1);
        header.set_uid(0);
        header.set_gid(0);
        let fields = header.as_gnu_mut().unwrap();
        fields.name[..name.len()].copy_from_slice(name.as_bytes());
        fields.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content.as_bytes());
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn file(self, name: &str, content: &str) -> Self {
        self.add(EntryType::Regular, name, "", 0o644, content)
    }

    fn link(self, name: &str, target: &str) -> Self {
        self.add(EntryType::Symlink, name, target, 0o777, "")
    }

    fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

/// Copies `web:d` to `out` from a server that sends this archive.
fn copy(project: &Project, flags: &[&str], archive: &[u8]) -> Ran {
    let socket = project.outside().join("evil.sock");
    std::fs::remove_file(&socket).ok();
    let listener = UnixListener::bind(&socket).unwrap();
    project.user.give(&socket);
    let stat = json!({ "path": "/home/user/d", "kind": "directory", "bytes": 0, "mode": "0755",
        "uid": 0, "gid": 0, "modified_us": 0 })
    .to_string();
    let answers = [stat.into_bytes(), archive.to_vec()];
    let mut command = project.atoll(&["cp", "web:d", "out"]);
    command.args(flags).env("ATOLL_HOST", format!("unix://{}", socket.display()));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    for answer in answers {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
        while !request.ends_with(b"\r\n\r\n") {
            let length = stream.read(&mut buffer).unwrap();
            assert!(length > 0);
            request.extend_from_slice(&buffer[..length]);
        }
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
        stream.write_all(head.as_bytes()).unwrap();
        // Who has seen enough goes away.
        stream.write_all(&answer).ok();
    }
    Ran(child.wait_with_output().unwrap())
}

/// All that is outside of the copy and could be changed, with content and mode.
fn outside(project: &Project) -> Vec<(PathBuf, u32, String)> {
    let mut found = Vec::new();
    let mut directories = vec![project.outside(), project.home(), project.root()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with("out") || path.extension().is_some_and(|end| end == "sock") {
                continue;
            }
            let metadata = path.symlink_metadata().unwrap();
            let content = std::fs::read_to_string(&path).unwrap_or_default();
            found.push((path.clone(), metadata.permissions().mode(), content));
            if metadata.is_dir() {
                directories.push(path);
            }
        }
    }
    found.sort();
    found
}

fn victim(project: &Project) -> PathBuf {
    let victim = project.outside().join("victim");
    std::fs::create_dir_all(victim.join("inner")).unwrap();
    std::fs::write(victim.join("file"), "mine").unwrap();
    std::fs::set_permissions(&victim, std::fs::Permissions::from_mode(0o711)).unwrap();
    project.user.give(&project.outside());
    victim
}

#[test]
fn nothing_is_written_outside_of_the_copy() {
    each(|project| {
        let victim = victim(project);
        let there = victim.to_str().unwrap();
        let file = format!("{there}/file");
        let planted = format!("{there}/planted");
        let hard = |name: &str, target: &str| {
            Archive::default().add(EntryType::Link, name, target, 0o644, "")
        };
        let through_link =
            || Archive::default().link("out", there).file("out/planted", "planted").end();
        // Without care it is written there.
        let archive = project.outside().join("archive");
        std::fs::write(&archive, through_link()).unwrap();
        let bare = project.bare_sh("mkdir bare && cd bare && tar -xPf ../../outside/archive");
        assert_eq!(bare.code(), Some(0), "{}", bare.text());
        assert_eq!(std::fs::read_to_string(&planted).unwrap(), "planted");
        std::fs::remove_file(&planted).unwrap();
        std::fs::remove_file(&archive).unwrap();

        let attacks = [
            ("a link and a file below it", through_link()),
            ("an absolute name", Archive::default().file(&planted, "planted").end()),
            (
                "a name that climbs",
                Archive::default().file("../../outside/victim/planted", "x").end(),
            ),
            ("a name that climbs later", Archive::default().file("a/../../planted", "x").end()),
            (
                "a link and a file over it",
                Archive::default().link("f", &file).file("f", "planted").end(),
            ),
            (
                "a chain of links",
                Archive::default()
                    .link("a", ".")
                    .link("b", "a/../../outside/victim")
                    .file("b/planted", "x")
                    .end(),
            ),
            (
                "a link and a directory over it",
                Archive::default()
                    .link("d", there)
                    .add(EntryType::Directory, "d", "", 0o777, "")
                    .file("d/planted", "x")
                    .end(),
            ),
            ("a hard link to a file", hard("h", &file).file("h", "planted").end()),
            (
                "a hard link that climbs",
                hard("h", "../../outside/victim/file").file("h", "x").end(),
            ),
            (
                "a hard link by a link",
                Archive::default()
                    .link("l", there)
                    .add(EntryType::Link, "h", "l/file", 0o644, "")
                    .file("h", "planted")
                    .end(),
            ),
            ("a device", Archive::default().add(EntryType::Char, "null", "", 0o666, "").end()),
        ];
        let before = outside(project);
        for flags in [&[][..], &["--all-links"]] {
            for (what, archive) in &attacks {
                let ran = copy(project, flags, archive);
                assert_eq!(outside(project), before, "{what} {flags:?}: {}", ran.text());
                assert!(!project.root().join("out/null").exists(), "{what}");
                // What an attack has planted is there for the next one.
                let again = copy(project, flags, archive);
                assert_eq!(outside(project), before, "{what} again: {}", again.text());
                std::fs::remove_dir_all(project.root().join("out")).ok();
            }
        }
    });
}

#[test]
fn links_that_lead_out_are_left_out_and_rights_are_not_given_away() {
    each(|project| {
        let victim = victim(project);
        let there = victim.to_str().unwrap();
        let archive = || {
            Archive::default()
                .file("file", "content")
                .link("good", "file")
                .link("absolute", there)
                .link("climbs", "../../outside/victim")
                .link("self", ".")
                .link("by\x1b[31m", "self/..")
                .add(EntryType::Regular, "tool", "", 0o6755, "#!/bin/sh\n")
                .end()
        };
        let ran = copy(project, &[], &archive());
        assert_eq!(ran.code(), Some(0), "{}", ran.text());
        assert!(ran.stderr().contains("3 names were left out"), "{}", ran.text());
        // Nor is the terminal theirs.
        assert!(ran.stderr().contains("\n  by\\x1b[31m\n"), "{}", ran.text());
        let out = project.root().join("out");
        assert_eq!(std::fs::read_to_string(out.join("good")).unwrap(), "content");
        for name in ["absolute", "climbs", "by\x1b[31m"] {
            assert!(out.join(name).symlink_metadata().is_err(), "{name}");
        }
        let mode = out.join("tool").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755);
        std::fs::remove_dir_all(&out).unwrap();
        assert_eq!(copy(project, &["--all-links"], &archive()).code(), Some(0));
        assert_eq!(std::fs::read_link(out.join("absolute")).unwrap(), Path::new(there));
    });
}

#[test]
fn an_archive_that_breaks_off_or_lies_is_no_success() {
    each(|project| {
        let whole = Archive::default().file("file", &"x".repeat(5000)).end();
        let ran = copy(project, &[], &whole[..2000]);
        assert_eq!(ran.code(), Some(125), "{}", ran.text());
        assert!(!project.root().join("out/file").exists(), "half of a file is there");
        let mut garbage = whole.clone();
        garbage[0..512].fill(b'x');
        let ran = copy(project, &[], &garbage);
        assert_eq!(ran.code(), Some(125), "{}", ran.text());
        assert!(ran.stderr().contains("the archive is damaged"), "{}", ran.text());
        // A name of gigabytes is not read into memory.
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::GNULongName);
        header.set_size(1 << 40);
        header.set_cksum();
        let ran = copy(project, &[], &[&header.as_bytes()[..], &whole].concat());
        assert_eq!(ran.code(), Some(125), "{}", ran.text());
        assert_eq!(copy(project, &[], &whole).code(), Some(0));
    });
}

#[test]
fn a_link_of_ours_in_the_way_is_not_followed() {
    each(|project| {
        let victim = victim(project);
        std::fs::create_dir(project.root().join("out")).unwrap();
        symlink(&victim, project.root().join("out/d")).unwrap();
        project.user.give(&project.root());
        let before = outside(project);
        for archive in [
            Archive::default().file("planted", "planted").end(),
            Archive::default().file("d/planted", "planted").end(),
        ] {
            // It is `out/d` that is copied to.
            let ran = copy(project, &["--all-links"], &archive);
            assert_eq!(ran.code(), Some(125), "{}", ran.text());
            assert_eq!(outside(project), before, "{}", ran.text());
        }
    });
}
