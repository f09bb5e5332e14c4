//! A file of 200 MB, in memory that does not grow with it.

use super::client::{octets, writing};
use super::{Sandbox, each};
use atoll_guest::files::Outcome;
use atoll_protocol::files::{ENTRIES_MAX, Read};
use atoll_protocol::frame::{self, Decoder, Kind};
use atoll_protocol::request::Request;
use std::io::{Read as _, Write as _};

const BYTES: usize = 200 << 20;

/// The most memory that this process ever held, in KiB.
fn high_water_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_large_file_is_written_and_read_in_flat_memory() {
    each("files::large::a_large_file_is_written_and_read_in_flat_memory", || {
        let sandbox = Sandbox::new();
        let before = high_water_kib();
        let mut piece: Vec<u8> = (0..=250).cycle().take(frame::DATA_BYTES_MAX).collect();

        let (mut host, worker) = sandbox.start(Request::Write(writing("/large")));
        for index in 0..BYTES / piece.len() {
            piece[..8].copy_from_slice(&index.to_le_bytes());
            host.write_all(&frame::header(Kind::Body, piece.len())).unwrap();
            host.write_all(&piece).unwrap();
        }
        host.write_all(&frame::header(Kind::End, 0)).unwrap();
        assert!(matches!(worker.join().unwrap(), Outcome::Done));

        let read = Read { path: octets("/large"), offset: 0, length: None };
        let (mut host, worker) = sandbox.start(Request::Read(read));
        let (mut decoder, mut got, mut has_end) = (Decoder::default(), 0, false);
        while !has_end {
            let length = host.read(decoder.space()).unwrap();
            assert_ne!(length, 0, "cut off after {got} bytes");
            decoder.filled(length);
            while let Some(frame) = decoder.next().unwrap() {
                has_end |= frame.kind == Kind::End;
                if frame.kind == Kind::Body {
                    let index = got / piece.len();
                    piece[..8].copy_from_slice(&index.to_le_bytes());
                    assert!(frame.payload == piece, "at {got}");
                    got += frame.payload.len();
                }
            }
        }
        assert_eq!(got, BYTES);
        assert!(matches!(worker.join().unwrap(), Outcome::Done));
        let grown = high_water_kib() - before;
        assert!(grown < 16 << 10, "the host and the worker took {grown} KiB more");
    });
}

#[test]
fn a_directory_of_many_names_is_listed_in_bounded_memory() {
    let sandbox = Sandbox::new();
    let names = 100_000;
    std::fs::write(sandbox.path("first"), "").unwrap();
    for index in (0..names).rev() {
        // Names of one file: an inode for each would take seconds.
        let name = sandbox.path(&format!("{}-{index:06}", "n".repeat(100)));
        std::fs::hard_link(sandbox.path("first"), &name)
            .or_else(|_| std::fs::write(&name, ""))
            .unwrap();
    }
    let before = high_water_kib();
    let answer = sandbox.list("/", 1, ENTRIES_MAX);
    let grown = high_water_kib() - before;
    let (entries, is_cut) = answer.entries();
    assert!(is_cut);
    assert_eq!(entries.len(), ENTRIES_MAX as usize);
    assert_eq!(entries[0].path, octets("first"));
    assert!(entries[9999].path.to_string().ends_with("-009998"));
    // Of the entries there are the worker's, their text on both sides, and ours.
    assert!(grown < 24 << 10, "{grown} KiB");
}
