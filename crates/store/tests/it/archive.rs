//! Layers as objects and back, on a real file system.

use atoll_store::Format;
use atoll_store::archive::{
    ArchiveKey, Destination, Expected, ObjectName, Owners, Packed, SealError, Source, UnpackError,
    check_layer, pack_layer, unpack_layer,
};
use atoll_store::room::{Quota, Room};
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat, setxattr};
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

const PARTS: &[&str] = &["home", "upper"];
const COUNT: u32 = 1024;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn format() -> Format {
    if is_root() { Format::Trusted } else { Format::User }
}

fn own() -> Owners {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Owners::One { uid, gid, inside: 1000 }
}

fn key(directory: &Path) -> ArchiveKey {
    let path = directory.join("key");
    fs::write(&path, format!("{}\n", "ab".repeat(32))).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    ArchiveKey::read(&path).unwrap()
}

fn pack(root: &Path, owners: Owners, key: Option<&ArchiveKey>) -> (Packed, Vec<u8>) {
    let source = Source { root, parts: PARTS, owners, format: format() };
    let mut object = Vec::new();
    let name = ObjectName::of_layer("n");
    let packed = pack_layer(&source, key, &name, &mut object, &|| false).unwrap();
    assert_eq!(packed.bytes, object.len() as u64);
    (packed, object)
}

fn unpack(
    object: &[u8],
    key: Option<&ArchiveKey>,
    expected: &Expected,
    (root, owners): (&Path, Owners),
) -> Result<(), UnpackError> {
    let room = Room::new(root, Quota { free_bytes: 0, images_bytes: None }, 0).unwrap();
    let to = Destination { root, parts: PARTS, owners, format: format(), room: &room };
    unpack_layer(object, key, &ObjectName::of_layer("n"), expected, &to, &|| false)
}

fn expected(packed: &Packed) -> Expected {
    let Packed { digest, packed_bytes, entries, .. } = *packed;
    Expected { digest, packed_bytes, entries }
}

fn attribute(path: &Path, name: &str, value: &[u8]) {
    setxattr(path, name, value, XattrFlags::empty()).unwrap();
}

/// A layer with one of everything.
fn layer(root: &Path) {
    let home = root.join("home");
    fs::create_dir_all(home.join("src/deep")).unwrap();
    fs::create_dir_all(root.join("upper/etc")).unwrap();
    fs::write(home.join("src/a.txt"), "secret-content-in-a-file").unwrap();
    fs::hard_link(home.join("src/a.txt"), home.join("src/deep/again")).unwrap();
    fs::hard_link(home.join("src/a.txt"), root.join("outside-of-the-parts")).unwrap();
    symlink("/etc/passwd", home.join("link")).unwrap();
    fs::write(home.join("unreadable"), "mode 0").unwrap();
    fs::set_permissions(home.join("unreadable"), fs::Permissions::from_mode(0o0)).unwrap();
    fs::create_dir(home.join("shut")).unwrap();
    fs::write(home.join("shut/in"), "in").unwrap();
    fs::set_permissions(home.join("shut"), fs::Permissions::from_mode(0o200)).unwrap();
    fs::write(home.join("set"), "s").unwrap();
    fs::set_permissions(home.join("set"), fs::Permissions::from_mode(0o6755)).unwrap();
    let sparse = File::create(home.join("sparse")).unwrap();
    sparse.write_all_at(b"end", 64 << 20).unwrap();
    fs::write(home.join("zeros"), vec![0; 200_000]).unwrap();
    fs::write(home.join("large"), (0..300_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>())
        .unwrap();
    let owner = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, home.join("pipe"), FileType::Fifo, owner, 0).unwrap();
    mknodat(CWD, home.join("socket"), FileType::Socket, owner, 0).unwrap();
    mknodat(CWD, home.join("gone"), FileType::CharacterDevice, Mode::empty(), 0).unwrap();
    attribute(&home.join("src/a.txt"), "user.mine", b"value");
    let prefix = if is_root() { "trusted" } else { "user" };
    attribute(&home.join("src/deep"), &format!("{prefix}.overlay.opaque"), b"y");
    attribute(&home.join("src"), &format!("{prefix}.overlay.origin"), b"");
    attribute(&home.join("src"), &format!("{prefix}.overlay.impure"), b"y");
}

#[test]
fn a_layer_comes_back_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::create_dir(&from).unwrap();
    fs::create_dir(&to).unwrap();
    layer(&from);
    let key = key(dir.path());
    for key in [None, Some(&key)] {
        let (packed, object) = pack(&from, own(), key);
        assert!(!object.windows(14).any(|window| window == b"secret-content"));
        unpack(&object, key, &expected(&packed), (&to, own())).unwrap();
        // The same files give the same bytes, wherever they are.
        let (again, _) = pack(&to, own(), key);
        assert_eq!((again.digest, again.entries), (packed.digest, packed.entries));
        let home = to.join("home");
        let inode = |name: &str| home.join(name).symlink_metadata().unwrap();
        assert_eq!(inode("src/a.txt").ino(), inode("src/deep/again").ino());
        assert_eq!(inode("src/a.txt").nlink(), 2);
        assert_eq!(inode("sparse").len(), (64 << 20) + 3);
        assert!(inode("sparse").blocks() * 512 < 1 << 20);
        assert!(inode("zeros").blocks() * 512 < 1 << 20);
        assert_eq!(inode("set").mode() & 0o7777, 0o6755);
        assert_eq!(inode("shut").mode() & 0o7777, 0o200);
        assert_eq!(
            inode("link").mtime_nsec(),
            from.join("home/link").symlink_metadata().unwrap().mtime_nsec()
        );
        assert_eq!((inode("gone").mode() & 0o170_000, inode("gone").rdev()), (0o020_000, 0));
        assert_eq!(fs::read_link(home.join("link")).unwrap(), Path::new("/etc/passwd"));
        // What the packer opened up is as it was.
        let shut = from.join("home/shut").symlink_metadata().unwrap();
        assert_eq!(shut.mode() & 0o7777, 0o200);
        fs::set_permissions(home.join("shut"), fs::Permissions::from_mode(0o700)).unwrap();
        for part in PARTS {
            fs::remove_dir_all(to.join(part)).unwrap();
        }
    }
}

#[test]
fn owners_are_those_of_where_it_is_unpacked() {
    if !is_root() {
        return atoll_testkit::skip::skip("archive-owners", "run by an ordinary user");
    }
    let dir = tempfile::tempdir().unwrap();
    let block = |first| Owners::Block { first, count: COUNT };
    let (one, other) = (block(0x7100_0000), block(0x7200_0000));
    let places = ["one", "other", "own"].map(|name| dir.path().join(name));
    places.iter().for_each(|place| fs::create_dir(place).unwrap());
    fs::create_dir(places[0].join("home")).unwrap();
    for (name, id) in [("user", 1000), ("root", 0), ("nobody", COUNT - 1)] {
        let path = places[0].join("home").join(name);
        fs::write(&path, name).unwrap();
        std::os::unix::fs::chown(&path, Some(0x7100_0000 + id), Some(0x7100_0000 + id)).unwrap();
    }
    let (packed, object) = pack(&places[0], one, None);
    unpack(&object, None, &expected(&packed), (&places[1], other)).unwrap();
    let owner = |place: &Path, name: &str| {
        let found = place.join("home").join(name).symlink_metadata().unwrap();
        (found.uid(), found.gid())
    };
    let (first, last) = (0x7200_0000, 0x7200_0000 + COUNT - 1);
    assert_eq!(owner(&places[1], "user"), (first + 1000, first + 1000));
    assert_eq!(owner(&places[1], "root"), (first, first));
    assert_eq!(owner(&places[1], "nobody"), (last, last));
    // An ordinary server has one user, who becomes the user inside again.
    let ordinary = Owners::One { uid: 77, gid: 78, inside: 1000 };
    unpack(&object, None, &expected(&packed), (&places[2], ordinary)).unwrap();
    assert_eq!(owner(&places[2], "root"), (77, 78));
    let (packed, object) = pack(&places[2], ordinary, None);
    let back = dir.path().join("back");
    fs::create_dir(&back).unwrap();
    unpack(&object, None, &expected(&packed), (&back, one)).unwrap();
    assert_eq!(owner(&back, "root"), (0x7100_0000 + 1000, 0x7100_0000 + 1000));
}

#[test]
fn what_the_archive_does_not_name_is_not_unpacked() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("from");
    fs::create_dir_all(from.join("home")).unwrap();
    // What compresses to next to nothing.
    let mut file = File::create(from.join("home/bomb")).unwrap();
    (0..64).for_each(|_| file.write_all(&[7; 1 << 20]).unwrap());
    let (packed, object) = pack(&from, own(), None);
    assert!(object.len() < 1 << 20);
    let whole = expected(&packed);
    let outcome = |expected: Expected| {
        let to = tempfile::tempdir_in(dir.path()).unwrap();
        let unpacked = unpack(&object, None, &expected, (to.path(), own()));
        let written = fs::metadata(to.path().join("home/bomb")).map_or(0, |found| found.len());
        (unpacked, written)
    };
    outcome(whole).0.unwrap();
    let check = |expected: Expected| {
        let name = ObjectName::of_layer("n");
        check_layer(object.as_slice(), None, &name, &expected, &|| false)
    };
    check(whole).unwrap();
    let short = check(Expected { packed_bytes: 1 << 20, ..whole });
    assert!(matches!(short, Err(UnpackError::TooLarge { what: "bytes", .. })), "{short:?}");
    let (short, written) = outcome(Expected { packed_bytes: 1 << 20, ..whole });
    assert!(matches!(short, Err(UnpackError::TooLarge { what: "bytes", .. })), "{short:?}");
    assert!(written <= 1 << 20, "{written}");
    let few = outcome(Expected { entries: 2, ..whole }).0;
    assert!(matches!(few, Err(UnpackError::TooLarge { what: "entries", .. })), "{few:?}");
    let other = Expected { digest: atoll_store::digest::Digest::of(b"other"), ..whole };
    assert!(matches!(outcome(other).0, Err(UnpackError::OtherDigest)));
    assert!(matches!(check(other), Err(UnpackError::OtherDigest)));
}

#[test]
fn who_cancels_gets_nothing() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("home")).unwrap();
    let source = Source { root: dir.path(), parts: PARTS, owners: own(), format: format() };
    let name = ObjectName::of_layer("n");
    let packed = pack_layer(&source, None, &name, Vec::new(), &|| true);
    assert!(matches!(packed, Err(atoll_store::archive::PackError::Canceled)), "{packed:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn an_object_that_was_touched_is_an_error_of_its_own(
        at: prop::sample::Index, bit in 0..8_u8, cut: bool, encrypted: bool,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("home")).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(from.join("home/a"), "content").unwrap();
        let key = encrypted.then(|| key(dir.path()));
        let (packed, mut object) = pack(&from, own(), key.as_ref());
        let at = at.index(object.len());
        match cut {
            true => object.truncate(at),
            false => object[at] ^= 1 << bit,
        }
        let error = unpack(&object, key.as_ref(), &expected(&packed), (&to, own())).unwrap_err();
        let name = ObjectName::of_layer("n");
        let checked = check_layer(object.as_slice(), key.as_ref(), &name, &expected(&packed), &|| false);
        let checked = checked.unwrap_err();
        prop_assert_eq!(checked.seal(), error.seal());
        let found = error.seal();
        prop_assert!(found.is_some(), "{:?}", error);
        if cut {
            // A cut within a segment looks like one that was changed.
            prop_assert!(
                matches!(found, Some(SealError::Truncated | SealError::Damaged)),
                "{:?}", found
            );
        }
    }
}
