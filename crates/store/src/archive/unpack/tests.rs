//! Layers that nobody has packed.

use super::super::code::Encoder;
use super::*;
use crate::node::Time;
use crate::room::Quota;
use proptest::prelude::*;

fn meta() -> Meta {
    let mtime = Time { sec: 1, nsec: 2 };
    Meta { mode: 0o644, uid: 1000, gid: 1000, mtime, attributes: Vec::new() }
}

fn directory(name: &str, goes: Goes) -> Entry {
    let meta = Meta { mode: 0o755, ..meta() };
    Entry::Directory { name: name.into(), meta, goes, is_copy: false }
}

fn file(name: &str, number: u32) -> Entry {
    Entry::File { name: name.into(), meta: meta(), number, bytes: 0 }
}

/// Unpacks what may be anything.
fn unpacked(root: &Path, packed: &[u8]) -> Result<(), UnpackError> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let room = Room::new(root, Quota { free_bytes: 0, images_bytes: None }, 0).unwrap();
    let to = Destination {
        root,
        parts: &["home", "upper"],
        owners: Owners::One { uid, gid, inside: 1000 },
        format: Format::User,
        room: &room,
    };
    unpack(packed, &to, 100, &|| false)
}

/// Writes these records, each file's empty content included, and unpacks them.
fn outcome(entries: &[Entry]) -> (tempfile::TempDir, Result<(), UnpackError>) {
    let root = tempfile::tempdir().unwrap();
    let mut encoder = Encoder(Vec::new());
    encoder.begin().unwrap();
    for entry in entries {
        encoder.entry(entry).unwrap();
        if matches!(entry, Entry::File { .. }) {
            encoder.end_of_content().unwrap();
        }
    }
    let unpacked = unpacked(root.path(), &encoder.0);
    (root, unpacked)
}

fn reason(entries: &[Entry]) -> String {
    let error = outcome(entries).1.unwrap_err();
    let source = std::error::Error::source(&error);
    source.map_or_else(|| error.to_string(), ToString::to_string)
}

#[test]
fn only_parts_are_at_the_top_and_directories_are_left_once() {
    let home = || directory("home", Goes::On);
    let (root, whole) = outcome(&[home(), file("a", 0), Entry::Leave, Entry::End]);
    whole.unwrap();
    assert!(root.path().join("home/a").is_file());
    assert!(!root.path().join(NUMBERED).exists());
    for entries in [
        vec![file("a", 0), Entry::End],
        vec![directory("below", Goes::On), Entry::Leave, Entry::End],
        vec![Entry::Gone { name: "home".into() }, Entry::End],
    ] {
        assert_eq!(reason(&entries), "it has more than its parts");
    }
    for entries in [vec![home(), Entry::End], vec![Entry::Leave, Entry::End]] {
        assert_eq!(reason(&entries), "its directories do not fit");
    }
    let twice = outcome(&[home(), Entry::Leave, home(), Entry::Leave, Entry::End]).1;
    assert!(matches!(twice, Err(UnpackError::Write { .. })), "{twice:?}");
}

#[test]
fn a_link_is_never_gone_through() {
    let outside = tempfile::tempdir().unwrap();
    let link = || Entry::Link {
        name: "a".into(),
        meta: meta(),
        target: outside.path().as_os_str().to_owned(),
    };
    for inside in [directory("a", Goes::On), file("a", 0)] {
        let (_, failed) = outcome(&[directory("home", Goes::On), link(), inside, Entry::Leave]);
        assert!(matches!(failed, Err(UnpackError::Write { .. })), "{failed:?}");
    }
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    // The link itself is no mistake.
    outcome(&[directory("home", Goes::On), link(), Entry::Leave, Entry::End]).1.unwrap();
}

#[test]
fn names_are_of_files_that_were_there() {
    let again = |number| Entry::Again { name: "b".into(), number };
    let with = |number, of| {
        let home = directory("home", Goes::On);
        [home, file("a", number), again(of), Entry::Leave, Entry::End]
    };
    outcome(&with(1, 1)).1.unwrap();
    for (number, of) in [(0, 0), (0, 1), (1, 2), (1, u32::MAX)] {
        let told = reason(&with(number, of));
        assert_eq!(told, "a name is of a file that was not there before", "{number} {of}");
    }
    assert_eq!(reason(&with(7, 7)), "its files are not numbered in order");
}

#[test]
fn marks_of_overlays_are_made_and_not_taken() {
    let attribute = |name: &str| {
        let attributes = vec![(name.into(), b"y".to_vec())];
        let meta = Meta { attributes, ..meta() };
        let file = Entry::File { name: "a".into(), meta, number: 0, bytes: 0 };
        [directory("home", Goes::On), file, Entry::Leave, Entry::End]
    };
    for name in ["user.overlay.opaque", "trusted.overlay.opaque", "security.capability"] {
        assert_eq!(
            reason(&attribute(name)),
            "a file has an attribute that is not its user's",
            "{name}"
        );
    }
    outcome(&attribute("user.mine")).1.unwrap();
    let moved = [directory("home", Goes::On), directory("a", Goes::Redirect("/b".into()))];
    let refused = outcome(&moved).1;
    assert!(matches!(refused, Err(UnpackError::NeedsRoot { .. })), "{refused:?}");
}

#[test]
fn there_is_an_end_to_everything() {
    let many = vec![directory("home", Goes::On); 200];
    let refused = outcome(
        &[many[0].clone()]
            .into_iter()
            .chain((0..200).map(|at| file(&at.to_string(), 0)))
            .collect::<Vec<_>>(),
    )
    .1;
    assert!(matches!(refused, Err(UnpackError::TooLarge { limit: 100, .. })), "{refused:?}");
    let long = Entry::File { name: "a".into(), meta: meta(), number: 0, bytes: u64::MAX };
    assert_eq!(reason(&[directory("home", Goes::On), long]), "a file is too long");
    let cut = outcome(&[directory("home", Goes::On)]).1;
    assert!(matches!(cut, Err(UnpackError::Read(_))), "{cut:?}");
}

fn entries() -> impl Strategy<Value = Entry> {
    let name = || prop::sample::select(vec!["a", "b", "c"]);
    let target = prop::sample::select(vec!["a", "..", "../../outside", "/", "b/c"]);
    prop_oneof![
        name().prop_map(|name| directory(name, Goes::On)),
        name().prop_map(|name| directory(name, Goes::Opaque)),
        (name(), 0..4_u32).prop_map(|(name, number)| file(name, number)),
        (name(), target).prop_map(|(name, target)| Entry::Link {
            name: name.into(),
            meta: meta(),
            target: target.into(),
        }),
        (name(), 0..4_u32).prop_map(|(name, number)| Entry::Again { name: name.into(), number }),
        name().prop_map(|name| Entry::Gone { name: name.into() }),
        name().prop_map(|name| Entry::Fifo { name: name.into(), meta: meta() }),
        Just(Entry::Leave),
    ]
}

proptest! {
    #[test]
    fn nothing_is_written_outside_whatever_the_records_are(
        records in prop::collection::vec(entries(), 0..30),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let base = tempfile::tempdir().unwrap();
        let root = base.path().join("root");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(base.path().join("outside"), "untouched").unwrap();
        let mut encoder = Encoder(Vec::new());
        encoder.begin().unwrap();
        encoder.entry(&directory("home", Goes::On)).unwrap();
        for entry in &records {
            encoder.entry(entry).unwrap();
            if matches!(entry, Entry::File { .. }) {
                encoder.end_of_content().unwrap();
            }
        }
        let mut packed = encoder.0;
        for (at, byte) in flips {
            let at = at.index(packed.len());
            packed[at] = byte;
        }
        let _outcome = unpacked(&root, &packed);
        let names = std::fs::read_dir(base.path()).unwrap();
        prop_assert_eq!(names.count(), 2);
        prop_assert_eq!(std::fs::read(base.path().join("outside")).unwrap(), b"untouched");
    }
}
