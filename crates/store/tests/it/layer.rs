//! Layers are kept once, whole, and show what an overlay of them shows.

use super::support::archive::Archive;
use super::support::{as_root_and_user, is_root, run_script};
use atoll_store::digest::Digest;
use atoll_store::image::{Limits, UnpackError};
use atoll_store::layer::{Chain, Expected, Info, LayerError, Layers, source_failed};
use atoll_store::node::FileKind;
use atoll_store::room::{NoRoom, Quota, Room};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tar::EntryType;

struct Case {
    dir: tempfile::TempDir,
    layers: Layers,
}

impl Case {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("atoll-layer-").tempdir().unwrap();
        let layers = Layers::open(dir.path()).unwrap();
        Self { dir, layers }
    }

    fn room(&self) -> Room {
        Room::new(self.dir.path(), Quota { free_bytes: 0, images_bytes: None }, 0).unwrap()
    }

    fn try_add(&self, bytes: &[u8], expected: &Expected) -> Result<Info, LayerError> {
        let pin = self.layers.pin(&[expected.diff_id]).unwrap();
        self.layers.add(&pin, bytes, expected, &Limits::default(), &self.room())
    }

    fn add(&self, archive: Archive) -> Digest {
        let bytes = archive.bytes();
        let diff_id = Digest::of(&bytes);
        self.try_add(&bytes, &Expected { diff_id, packed: None }).unwrap();
        diff_id
    }

    /// What may be there beside locks.
    fn names(&self) -> BTreeSet<String> {
        let names = std::fs::read_dir(self.dir.path().join("image-layers")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "locks").collect()
    }

    /// What an overlay of the layers shows, as `find` sees it.
    fn shown(&self, lowers: &[PathBuf]) -> BTreeMap<String, String> {
        let empty = self.dir.path().join("empty");
        let merged = self.dir.path().join("merged");
        for dir in [&empty, &merged] {
            std::fs::create_dir_all(dir).unwrap();
        }
        let (unshare, options) = if is_root() { ("-m", "ro") } else { ("-rm", "userxattr") };
        // One layer alone is none for an overlay; an empty one changes nothing. Where only one
        // has a directory, its marks are listed, but nothing is there by these names.
        let all: Vec<_> = lowers.iter().chain([&empty]).map(|p| p.display().to_string()).collect();
        let script = format!(
            "mount -t overlay overlay -o lowerdir={},{options} merged; cd merged; \
             find . -mindepth 1 -printf '%P\\t%y\\t%l\\t%m\\n' > ../found 2> ../unseen || true; \
             find . -type f -printf '%P\\t' -exec cat {{}} \\; -printf '\\n' > ../read 2>/dev/null || true",
            all.join(":")
        );
        run_script(
            Command::new("unshare").arg(unshare).arg("bash").current_dir(self.dir.path()),
            &script,
        );
        let of = |name: &str| std::fs::read_to_string(self.dir.path().join(name)).unwrap();
        let mut shown = BTreeMap::new();
        for line in of("found").lines() {
            let (path, rest) = line.split_once('\t').unwrap();
            shown.insert(path.to_owned(), rest.to_owned());
        }
        for line in of("read").lines() {
            let (path, content) = line.split_once('\t').unwrap();
            shown.get_mut(path).unwrap().push_str(content);
        }
        shown
    }

    /// The same by the chain.
    fn seen(chain: &Chain, at: &Path, seen: &mut BTreeMap<String, String>) {
        for (name, one) in chain.names(at).unwrap() {
            let path = at.join(name);
            let (letter, target) = match one.kind {
                FileKind::Dir => ("d", String::new()),
                FileKind::File => ("f", String::new()),
                FileKind::Symlink => {
                    ("l", std::fs::read_link(&one.at).unwrap().display().to_string())
                }
                other => panic!("{other:?}"),
            };
            let mut text = format!("{letter}\t{target}\t{:o}", one.mode);
            if one.kind == FileKind::File {
                text += &std::fs::read_to_string(&one.at).unwrap();
            }
            seen.insert(path.display().to_string(), text);
            if one.kind == FileKind::Dir {
                Self::seen(chain, &path, seen);
            }
        }
    }

    #[track_caller]
    fn check(&self, layers: &[Digest]) -> BTreeMap<String, String> {
        let lowers = self.layers.lowers(layers).unwrap();
        let mut seen = BTreeMap::new();
        Self::seen(&self.layers.chain(layers).unwrap(), Path::new(""), &mut seen);
        assert_eq!(seen, self.shown(&lowers));
        seen
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        Command::new("chmod").args(["-R", "u+rwX"]).arg(self.dir.path()).output().ok();
    }
}

macro_rules! both {
    ($($name:ident => $body:block)*) => { $(
        #[test]
        fn $name() {
            fn body() $body
            as_root_and_user(concat!("layer::", stringify!($name)), body);
        }
    )* };
}

fn gone(archive: Archive, path: &str) -> Archive {
    archive.file(path, "")
}

both! {
    what_is_gone_is_gone_and_what_is_new_is_there => {
        let case = Case::new();
        let base = case.add(
            Archive::new()
                .dir("d", 0o755)
                .file("d/kept", "1")
                .file("d/gone", "2")
                .dir("hidden", 0o755)
                .file("hidden/old", "3")
                .dir("replaced", 0o755)
                .file("replaced/old", "4")
                .file("file", "5")
                .dir("below", 0o711)
                .file("below/old", "6"),
        );
        let mut above = Archive::new();
        for path in ["d/.wh.gone", "hidden/.wh..wh..opq", ".wh.replaced", ".wh.file", ".wh.below"] {
            above = gone(above, path);
        }
        // In whatever order it is said, only what is below is gone.
        let above = above
            .file("hidden/new", "7")
            .dir("replaced", 0o700)
            .file("replaced/new", "8")
            .file("below/deep/new", "9")
            .dir("late", 0o755)
            .file("late/new", "10");
        let above = gone(gone(above, ".wh.late"), ".wh..wh.plnk/1");
        let above = case.add(above);
        let seen = case.check(&[base, above]);
        let paths: Vec<&str> = seen.keys().map(String::as_str).collect();
        assert_eq!(
            paths,
            ["below", "below/deep", "below/deep/new", "d", "d/kept", "hidden", "hidden/new", "late", "late/new", "replaced", "replaced/new"]
        );
        // The control: without that layer all is there, and without the other it is the same.
        assert_eq!(case.check(&[base]).len(), 10);
        assert_eq!(case.check(&[above]).len(), 10);
        // What hides everything needs nothing below it.
        let over = case.add(gone(Archive::new().file("only", ""), ".wh..wh..opq"));
        assert_eq!(case.layers.lowers(&[base, over, above]).unwrap().len(), 2);
        assert!(case.check(&[base, over]).keys().eq(["only"]));
    }
    names_that_say_nothing_are_refused => {
        let case = Case::new();
        for name in [".wh.", "a/.wh..", ".wh.../x", ".wh.a/b"] {
            let bytes = Archive::new().file(name, "").bytes();
            let expected = Expected { diff_id: Digest::of(&bytes), packed: None };
            let error = case.try_add(&bytes, &expected).unwrap_err();
            let LayerError::Unpack { source, .. } = &error else { panic!("{error}") };
            assert!(matches!(source, UnpackError::Whiteout { .. }), "{name}: {source}");
        }
        let bytes = Archive::new().file("a/.wh.../../../x", "").bytes();
        let error = case.try_add(&bytes, &Expected { diff_id: Digest::of(&bytes), packed: None });
        assert!(matches!(error, Err(LayerError::Unpack { source: UnpackError::Escapes { .. }, .. })));
        assert_eq!(case.names(), BTreeSet::new());
    }
    a_layer_that_is_another_is_not_kept => {
        let case = Case::new();
        let bytes = Archive::new().file("a", "a").bytes();
        let packed = zstd::encode_all(bytes.as_slice(), 1).unwrap();
        let (diff_id, other) = (Digest::of(&bytes), Digest::of(b"other"));
        let length = packed.len() as u64;
        let whole = |diff_id, digest, length| Expected { diff_id, packed: Some((digest, length)) };
        let right = Digest::of(&packed);
        for (expected, what) in [
            (whole(other, right, length), "the content"),
            (whole(diff_id, other, length), "the archive"),
            (whole(diff_id, right, length - 1), "the length"),
        ] {
            let error = case.try_add(&packed, &expected).unwrap_err();
            let is_said = match what {
                "the length" => matches!(error, LayerError::Length { .. }),
                _ => matches!(error, LayerError::Digest { .. }),
            };
            assert!(is_said, "{what}: {error}");
            assert_eq!(case.names(), BTreeSet::new(), "{what}");
        }
        // A source that fails is no damage.
        let failing = packed[..9].chain(FailingReader);
        let pin = case.layers.pin(&[]).unwrap();
        let error = case
            .layers
            .add(&pin, failing, &whole(diff_id, right, length), &Limits::default(), &case.room())
            .unwrap_err();
        let LayerError::Unpack { source, .. } = &error else { panic!("{error}") };
        assert!(matches!(source, UnpackError::Read { .. }), "{source:?}");
        // The control, and the same once more without reading anything.
        let info = case.try_add(&packed, &whole(diff_id, right, length)).unwrap();
        assert_eq!((info.bytes, info.entries), (1, 1));
        let again = case.layers.add(&pin, FailingReader, &whole(diff_id, right, length), &Limits::default(), &case.room());
        assert_eq!(again.unwrap(), info);
        assert_eq!(case.names(), BTreeSet::from([diff_id.file_name()]));
    }
    a_last_block_that_is_not_filled_up_is_no_damage => {
        let case = Case::new();
        let whole = Archive::new().file("a", "a").file("b", "12345").bytes();
        let end = whole.windows(5).rposition(|bytes| bytes == b"12345").unwrap() + 5;
        let add = |bytes: &[u8]| case.try_add(bytes, &Expected { diff_id: Digest::of(bytes), packed: None });
        assert_eq!(add(&whole[..end]).unwrap().bytes, 6);
        // What is missing of a whole block is.
        let error = add(&whole[..end - 512]).unwrap_err();
        assert!(matches!(error, LayerError::Unpack { source: UnpackError::Damaged { .. }, .. }), "{error}");
    }
    no_content_at_all_is_a_layer => {
        let case = Case::new();
        let empty = case.add(Archive::new());
        assert_eq!(case.check(&[empty]), BTreeMap::new());
        let full = case.add(Archive::new().file("a", "a"));
        for layers in [&[empty, full][..], &[full, empty, empty], &[full, empty, full]] {
            assert_eq!(case.check(layers).len(), 1);
            assert_eq!(case.layers.lowers(layers).unwrap().len(), 1);
        }
    }
    attributes_of_users_are_kept_and_others_are_told => {
        let case = Case::new();
        let mut archive = Archive::new();
        let records = [
            ("SCHILY.xattr.user.note", &b"\x00\xffvalue"[..]),
            ("SCHILY.xattr.security.capability", b"\x01\x00\x00\x02"),
            ("SCHILY.xattr.user.overlay.opaque", b"y"),
            ("SCHILY.xattr.trusted.overlay.redirect", b"/etc"),
            ("SCHILY.acl.access", b"u::rw-"),
        ];
        archive.0.append_pax_extensions(records).unwrap();
        let layer = case.add(archive.file("f", "x").raw(EntryType::Char, b"n", b"", 0, b""));
        let file = case.layers.tree(&layer).join("f");
        let mut names = vec![0; 4096];
        let length = rustix::fs::listxattr(&file, &mut names).unwrap();
        assert_eq!(&names[..length], b"user.note\0");
        let mut value = vec![0; 100];
        let length = rustix::fs::getxattr(&file, "user.note", &mut value).unwrap();
        assert_eq!(&value[..length], b"\x00\xffvalue");
        assert_eq!(case.layers.info(&layer).unwrap().left_out, 5);
    }
    links_lead_within_the_layers => {
        let case = Case::new();
        let base = case.add(
            Archive::new()
                .dir("usr/lib", 0o755)
                .symlink("lib", "usr/lib")
                .symlink("etc", "/usr/../usr/etc")
                .symlink("loop", "loop")
                .symlink("up", "../../../../usr"),
        );
        let above = case.add(Archive::new().file("usr/lib/a", "a").file("usr/etc/passwd", "root"));
        let chain = case.layers.chain(&[base, above]).unwrap();
        let read = |path: &str| chain.read(Path::new(path), 100).unwrap();
        assert_eq!(read("lib/a").unwrap(), b"a");
        assert_eq!(read("/etc/passwd").unwrap(), b"root");
        assert_eq!(read("up/lib/a").unwrap(), b"a");
        assert_eq!(read("usr/lib"), None);
        assert_eq!(chain.read(Path::new("lib/a"), 0).unwrap(), None);
        assert!(chain.read(Path::new("loop"), 9).is_err());
        assert!(!chain.is_root().unwrap());
        assert_eq!(chain.resolve(Path::new("lib")).unwrap().unwrap().0, Path::new("usr/lib"));
    }
    what_is_used_is_not_collected => {
        let case = Case::new();
        let [rooted, pinned, loose] = ["1", "2", "3"].map(|n| case.add(Archive::new().file("a", n)));
        let pin = case.layers.pin(&[pinned]).unwrap();
        // As a process leaves it that is killed.
        let left = case.dir.path().join("image-layers/locks/pin-0000000000000000");
        std::fs::write(&left, format!("{loose}\n")).unwrap();
        let collect = || case.layers.collect(|| Ok::<_, LayerError>(BTreeSet::from([rooted])));
        let collected = collect().unwrap();
        assert_eq!((collected.layers, collected.bytes), (1, 1));
        assert!(!left.exists());
        assert_eq!(case.names(), BTreeSet::from([rooted.file_name(), pinned.file_name()]));
        drop(pin);
        assert_eq!(collect().unwrap().layers, 1);
        assert_eq!(case.names(), BTreeSet::from([rooted.file_name()]));
        // Where roots cannot be told, nothing goes.
        let error = LayerError::Gone { diff_id: loose };
        assert!(case.layers.collect(|| Err::<BTreeSet<Digest>, _>(error)).is_err());
        assert_eq!(case.names(), BTreeSet::from([rooted.file_name()]));
    }
    what_has_no_room_is_not_kept => {
        let case = Case::new();
        let bytes = Archive::new().file("a", &"a".repeat(100_000)).bytes();
        let expected = Expected { diff_id: Digest::of(&bytes), packed: None };
        let pin = case.layers.pin(&[expected.diff_id]).unwrap();
        let add = |quota| {
            let quota = Quota { free_bytes: 0, images_bytes: Some(quota) };
            let room = Room::new(case.dir.path(), quota, 0).unwrap();
            case.layers.add(&pin, bytes.as_slice(), &expected, &Limits::default(), &room)
        };
        let error = add(100_000).unwrap_err();
        let LayerError::Unpack { source: UnpackError::NoRoom(reason), .. } = &error else {
            panic!("{error}")
        };
        assert!(matches!(reason, NoRoom::Quota { quota_bytes: 100_000, .. }), "{reason}");
        assert_eq!(case.names(), BTreeSet::new());
        add(101_000).unwrap();
        assert!(case.layers.used_bytes().unwrap() >= 100_000);
    }
}

struct FailingReader;

impl io::Read for FailingReader {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(source_failed(io::ErrorKind::ConnectionReset.into()))
    }
}

#[derive(Debug, Clone)]
enum Entry {
    File(String),
    Dir,
    Link(String),
    Gone,
    Opaque,
}

fn entry() -> impl Strategy<Value = Entry> {
    prop_oneof![
        3 => "[a-z]{0,3}".prop_map(Entry::File),
        2 => Just(Entry::Dir),
        1 => "[a-z]{1,3}".prop_map(Entry::Link),
        2 => Just(Entry::Gone),
        1 => Just(Entry::Opaque),
    ]
}

/// A layer over paths of few names, three deep.
fn layer() -> impl Strategy<Value = Vec<(Vec<&'static str>, Entry)>> {
    let name = prop::sample::select(vec!["a", "b"]);
    prop::collection::vec((prop::collection::vec(name, 1..4), entry()), 0..8)
}

/// Packs what makes sense: archivers write no file below a file.
fn pack(entries: &[(Vec<&'static str>, Entry)]) -> Vec<u8> {
    let mut archive = Archive::new();
    let mut files: BTreeSet<String> = BTreeSet::new();
    let mut dirs: BTreeSet<String> = BTreeSet::new();
    for (names, entry) in entries {
        let path = names.join("/");
        let above: Vec<String> = (1..names.len()).map(|n| names[..n].join("/")).collect();
        if above.iter().any(|above| files.contains(above)) || files.contains(&path) {
            continue;
        }
        let (last, directory) =
            (names[names.len() - 1], &path[..path.len() - names[names.len() - 1].len()]);
        archive = match entry {
            Entry::File(_) | Entry::Link(_) if dirs.contains(&path) => continue,
            Entry::File(content) => archive.file(&path, content),
            Entry::Link(target) => archive.symlink(&path, target),
            Entry::Dir => archive.dir(&path, 0o755),
            Entry::Gone => archive.file(&format!("{directory}.wh.{last}"), ""),
            Entry::Opaque => archive.file(&format!("{path}/.wh..wh..opq"), ""),
        };
        dirs.extend(above);
        match entry {
            Entry::File(_) | Entry::Link(_) => drop(files.insert(path)),
            Entry::Dir | Entry::Opaque => drop(dirs.insert(path)),
            Entry::Gone => {}
        }
    }
    archive.bytes()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_chain_shows_what_an_overlay_shows(layers in prop::collection::vec(layer(), 1..5)) {
        let case = Case::new();
        let mut ids = Vec::new();
        for layer in &layers {
            let bytes = pack(layer);
            let diff_id = Digest::of(&bytes);
            case.try_add(&bytes, &Expected { diff_id, packed: None }).unwrap();
            ids.push(diff_id);
        }
        case.check(&ids);
    }
}

#[test]
fn a_chain_shows_what_an_overlay_shows_to_an_ordinary_user() {
    as_root_and_user("layer::a_chain_shows_what_an_overlay_shows", || {});
}

#[test]
fn files_of_a_layer_share_nothing_with_other_layers() {
    let case = Case::new();
    let one = case.add(Archive::new().file("a", "x").link("b", "a"));
    let ino = |name: &str| case.layers.tree(&one).join(name).metadata().unwrap();
    assert_eq!((ino("a").ino(), ino("a").nlink()), (ino("b").ino(), 2));
}
