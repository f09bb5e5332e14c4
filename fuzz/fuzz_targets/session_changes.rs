//! Whatever a sandbox leaves in its upper directory, reading and applying it
//! touches the project only.
//!
//! Each four bytes of the input are one act on the upper or the project: what, where,
//! and what with.
#![no_main]

use atoll_store::Format;
use atoll_store::apply::{self, Request};
use atoll_store::changes;
use atoll_store::view::{View, ViewSpec};
use libfuzzer_sys::fuzz_target;
use rustix::fs::{CWD, FileType, Mode, XattrFlags};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

const NAMES: [&str; 8] = ["a", "b", "d", "d/a", "d/e", "d/e/f", "b/c", "b/c/d"];
const TARGETS: [&str; 6] = ["../outside", "../../outside", ".", "..", "a", "d/e"];
const REDIRECTS: [&str; 8] = ["/d", "a", "/../outside", "..", "/d/../..", "", "/", "d/e"];
const ACTS_MAX: usize = 24;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, acts)) = bytes.split_first() else { return };
    let base = tempfile::tempdir_in(memory()).unwrap();
    let path = |name: &str| base.path().join(name);
    for name in ["upper", "project", "outside"] {
        std::fs::create_dir(path(name)).unwrap();
    }
    std::fs::write(path("outside/f"), "untouched").unwrap();
    let (format, prefix) =
        if first & 1 == 0 { (Format::User, "user") } else { (Format::Trusted, "trusted") };
    for act in acts.chunks_exact(4).take(ACTS_MAX) {
        let tree = path(if act[0] & 1 == 0 { "upper" } else { "project" });
        let name = NAMES[usize::from(act[1]) % NAMES.len()];
        if !leads_through_link(&tree, Path::new(name)) {
            do_one(&tree.join(name), prefix, act[0] >> 1, act[2], act[3]);
        }
    }
    let masked =
        if first & 2 == 0 { BTreeSet::new() } else { BTreeSet::from([PathBuf::from("d/a")]) };
    let spec = ViewSpec {
        upper: path("upper"),
        project: path("project"),
        format,
        masked,
        started: None,
        stand_in: None,
        baseline: Default::default(),
        is_running: false,
    };
    check_outside(base.path(), "before");
    let view = View::open(spec).unwrap();
    let changes = changes::read(&view).unwrap();
    for change in &changes.list {
        let is_plain = change.path.components().all(|part| matches!(part, Component::Normal(_)));
        assert!(is_plain, "{change:?}");
    }
    let request = Request { session: "ses_0123456789abcdef", ..Request::default() };
    let applied = apply::apply(&view, &changes, &request);
    drop(view);
    check_outside(base.path(), &format!("{applied:?}"));
});

/// An act through a link would itself be one on another place.
fn leads_through_link(tree: &Path, name: &Path) -> bool {
    name.ancestors().any(|name| !name.as_os_str().is_empty() && tree.join(name).is_symlink())
}

/// Does what the kernel lets it: a mark that is refused was not left either.
fn do_one(path: &Path, prefix: &str, act: u8, with: u8, more: u8) {
    let mark = |name: &str, value: &[u8]| {
        let name = format!("{prefix}.overlay.{name}");
        rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()).ok();
    };
    match act % 10 {
        0 | 1 => drop(std::fs::create_dir_all(path)),
        // Only new ones: a fifo that is there would wait for a reader.
        2 | 3 => {
            if let Ok(mut file) = std::fs::File::create_new(path) {
                file.write_all(&[with, more]).unwrap();
            }
        }
        4 => drop(symlink(TARGETS[usize::from(with) % TARGETS.len()], path)),
        5 => drop(rustix::fs::mknodat(CWD, path, FileType::CharacterDevice, Mode::empty(), 0)),
        6 => drop(rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0)),
        7 => mark("opaque", if with & 1 == 0 { b"y" } else { b"x" }),
        8 => mark("redirect", REDIRECTS[usize::from(with) % REDIRECTS.len()].as_bytes()),
        _ => match with % 4 {
            0 => mark("whiteout", b"y"),
            1 => mark("metacopy", b""),
            2 => mark("origin", &[more; 12]),
            _ => drop(rustix::fs::chmod(path, Mode::from_raw_mode(u32::from(more) * 16))),
        },
    }
}

fn check_outside(base: &Path, applied: &str) {
    let names = |directory: &Path| {
        let entries = std::fs::read_dir(directory).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(base), ["outside", "project", "upper"], "{applied}");
    assert_eq!(names(&base.join("outside")), ["f"], "{applied}");
    assert_eq!(std::fs::read(base.join("outside/f")).unwrap(), b"untouched", "{applied}");
}

/// Files in memory are made a few times faster.
fn memory() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}
