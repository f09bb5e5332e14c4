//! Files of a real sandbox.

use super::{assert_refused, text, with_sandbox};
use atoll_engine::guest::{Seen, Unpacked};
use atoll_protocol::files::{
    Archive, Change, Edit, Existing, Expected, Glob, Grep, List, Look, MakeDirectory, Move, Read,
    Remove, Replacement, SetMode, Unpack, Watch, Write,
};
use atoll_protocol::frame::DATA_BYTES_MAX;
use atoll_protocol::problem::Code;
use tokio::io::AsyncReadExt as _;

fn read(path: &str) -> Read {
    Read { path: text(path), offset: 0, length: None }
}

fn write(path: &str) -> Write {
    Write { path: text(path), existing: Existing::Replace, mode: None, make_parents: true }
}

fn look(path: &str) -> Look {
    Look { path: text(path), follow: false }
}

/// The most memory that this process has had, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn large_files_go_both_ways_in_little_memory() {
    with_sandbox("files::large_files_go_both_ways_in_little_memory", |real| async move {
        const BYTES: u64 = 200_000_000;
        let every = vec![b'x'; DATA_BYTES_MAX];
        let before = peak_kib();
        let mut source = tokio::io::repeat(b'x').take(BYTES);
        let stat = real.guest.write(write("/home/user/large"), &mut source).await.unwrap();
        assert_eq!(stat.bytes, BYTES);
        let mut content = real.guest.read(read("/home/user/large")).await.unwrap();
        let mut bytes = 0;
        while let Some(piece) = content.next().await.unwrap() {
            assert!(piece == every[..piece.len()]);
            bytes += piece.len() as u64;
        }
        assert_eq!(bytes, BYTES);
        let grown = peak_kib() - before;
        assert!(grown < 16 << 10, "{grown} KiB more");
        let part = Read { offset: BYTES - 5, length: Some(100), ..read("/home/user/large") };
        let mut content = real.guest.read(part).await.unwrap();
        assert_eq!(content.next().await.unwrap().unwrap().len(), 5);
        assert_eq!(content.next().await.unwrap(), None);
    });
}

#[test]
fn names_are_made_looked_at_moved_and_removed() {
    with_sandbox("files::names_are_made_looked_at_moved_and_removed", |real| async move {
        let guest = &real.guest;
        guest.write(write("/home/user/a/b/file"), &mut &b"one two"[..]).await.unwrap();
        assert_eq!(guest.look(look("/home/user/a/b/file")).await.unwrap().bytes, 7);
        let keep = Write { existing: Existing::Keep, ..write("/home/user/a/b/file") };
        assert_refused(guest.write(keep, &mut &b"other"[..]).await, Code::Conflict);
        let make = MakeDirectory { path: text("/home/user/c"), mode: None, make_parents: false };
        guest.make_directory(make).await.unwrap();
        let rename = Move {
            from: text("/home/user/a/b/file"),
            to: text("/home/user/c/file"),
            replace: false,
        };
        guest.rename(rename).await.unwrap();
        let set = SetMode { path: text("/home/user/c/file"), mode: 0o600 };
        assert_eq!(guest.set_mode(set).await.unwrap().mode, 0o600);
        let replacement =
            Replacement { old: "two".into(), new: "three".into(), expected: Expected::Any };
        let edit = Edit { path: text("/home/user/c/file"), replacements: vec![replacement] };
        assert_eq!(guest.edit(edit).await.unwrap().replaced, [1]);
        assert_eq!(real.sh("cat c/file; stat -c ' %a' c/file").await, "one three 600\n");
        let list = List { path: text("/home/user"), depth: 2, limit: 3 };
        let listing = guest.list(list.clone()).await.unwrap();
        assert_eq!((listing.entries.len(), listing.is_cut), (3, true));
        let all = guest.list(List { limit: 100, ..list }).await.unwrap();
        let names: Vec<_> = all.entries.iter().map(|stat| stat.path.to_string()).collect();
        assert!(["a", "a/b", "c", "c/file"].iter().all(|name| names.contains(&(*name).to_owned())));
        let remove = Remove { path: text("/home/user/c"), recursive: false };
        assert_refused(guest.remove(remove.clone()).await, Code::Conflict);
        guest.remove(Remove { recursive: true, ..remove }).await.unwrap();
        assert_refused(guest.look(look("/home/user/c")).await, Code::NotFound);
        assert_refused(guest.read(read("/home/user/c")).await.map(|_| ()), Code::NotFound);
    });
}

#[test]
fn names_and_lines_are_found() {
    with_sandbox("files::names_and_lines_are_found", |real| async move {
        real.sh("mkdir -p src/deep; echo 'fn one' > src/a.rs; echo 'fn two' > src/deep/b.rs").await;
        let glob = Glob {
            path: text("/home/user/src"),
            pattern: "**/*.rs".into(),
            respects_ignore: false,
            limit: 10,
        };
        assert_eq!(real.guest.glob(glob).await.unwrap().entries.len(), 2);
        let grep = Grep {
            path: text("/home/user/src"),
            pattern: "fn t".into(),
            is_literal: false,
            ignores_case: false,
            include: Vec::new(),
            respects_ignore: false,
            limit: 10,
        };
        let found = real.guest.grep(grep).await.unwrap();
        assert_eq!((found.matches.len(), found.searched), (1, 2));
        assert_eq!(found.matches[0].text, "fn two");
    });
}

#[test]
fn a_directory_goes_out_and_in_as_an_archive() {
    with_sandbox("files::a_directory_goes_out_and_in_as_an_archive", |real| async move {
        real.sh("mkdir -p from/deep; echo one > from/deep/file; ln -s deep/file from/link").await;
        let mut content =
            real.guest.archive(Archive { path: text("/home/user/from") }).await.unwrap();
        let mut archive = Vec::new();
        while let Some(bytes) = content.next().await.unwrap() {
            archive.extend(bytes);
        }
        let unpack = Unpack { path: text("/home/user/to"), make_parents: true };
        let unpacked = real.guest.unpack(unpack.clone(), &mut &archive[..]).await.unwrap();
        assert_eq!(unpacked, Unpacked { entries: 3, bytes: 4 });
        assert_eq!(real.sh("cat to/link").await, "one\n");
        let noise = real.guest.unpack(unpack, &mut &[b'x'; 4096][..]).await;
        assert_refused(noise, Code::Invalid);
    });
}

#[test]
fn what_changes_is_seen_until_the_directory_is_gone() {
    with_sandbox("files::what_changes_is_seen_until_the_directory_is_gone", |real| async move {
        real.sh("mkdir dir").await;
        let watch = Watch { path: text("/home/user/dir"), recursive: true };
        let mut watching = real.guest.watch(watch.clone()).await.unwrap();
        real.sh("echo > dir/file").await;
        let made = Seen::Changed { path: text("file"), change: Change::Made, is_directory: false };
        assert_eq!(watching.next().await.unwrap(), Some(made));
        real.sh("rm -r dir").await;
        while watching.next().await.unwrap().is_some() {}
        assert_eq!(watching.next().await.unwrap(), None);
        assert_refused(real.guest.watch(watch).await.map(|_| ()), Code::NotFound);
    });
}
