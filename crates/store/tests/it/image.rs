//! Root file systems are unpacked as packed, and hostile ones are refused.

use super::support::archive::Archive;
use super::support::{as_root_and_user, may_as_root};
use atoll_store::image::{Image, ImageError, Images, Limits, Report, UnpackError, unpack};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use tar::{EntryType, Header};

macro_rules! both {
    ($($name:ident => $body:block)*) => { $(
        #[test]
        fn $name() {
            fn body() $body
            as_root_and_user(concat!("image::", stringify!($name)), body);
        }
    )* };
}

/// A directory to unpack into, beside another that nothing may reach.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("atoll-image-").tempdir().unwrap();
        std::fs::create_dir(dir.path().join("root")).unwrap();
        std::fs::create_dir(dir.path().join("outside")).unwrap();
        std::fs::write(dir.path().join("outside/f"), "safe").unwrap();
        Self { dir }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    fn try_unpack(&self, bytes: &[u8], limits: &Limits) -> Result<Report, UnpackError> {
        let root = std::fs::File::open(self.root()).unwrap();
        let outcome = unpack(bytes, root.as_fd(), limits);
        assert_eq!(std::fs::read_to_string(self.dir.path().join("outside/f")).unwrap(), "safe");
        assert_eq!(std::fs::read_dir(self.dir.path().join("outside")).unwrap().count(), 1);
        outcome
    }

    #[track_caller]
    fn unpack(&self, archive: Archive) -> Report {
        self.try_unpack(&archive.bytes(), &Limits::default()).unwrap()
    }

    #[track_caller]
    fn refuse(archive: Archive) -> UnpackError {
        Self::new().try_unpack(&archive.bytes(), &Limits::default()).unwrap_err()
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.root().join(path)).unwrap()
    }

    fn mode(&self, path: &str) -> u32 {
        self.root().join(path).symlink_metadata().unwrap().mode() & 0o7777
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        Command::new("chmod").args(["-R", "u+rwX"]).arg(self.dir.path()).output().ok();
    }
}

both! {
    a_plain_tree_comes_out_as_it_is => {
        let place = Place::new();
        let report = place.unpack(
            Archive::new()
                .dir("./", 0o755)
                .dir("./usr", 0o755)
                .dir("./usr/lib", 0o555)
                .file("./usr/lib/a", "a")
                .symlink("./lib", "usr/lib")
                .file("lib/through", "b")
                .link("./usr/lib/hard", "usr/lib/a")
                .raw(EntryType::Regular, b"/usr/x", b"", 0o4755, b"x")
                .dir("tmp", 0o1777)
                .file("made/on/the/way", "c"),
        );
        assert_eq!((report.entries, report.bytes, report.skipped_count), (10, 4, 0));
        assert_eq!((place.read("usr/lib/through"), place.read("made/on/the/way")), ("b".into(), "c".into()));
        assert_eq!(place.mode("usr/lib"), 0o555);
        assert_eq!(place.mode("tmp"), 0o1777);
        assert_eq!(place.mode("usr/x"), 0o755, "setuid is taken away");
        let ino = |path: &str| place.root().join(path).metadata().unwrap().ino();
        assert_eq!(ino("usr/lib/a"), ino("usr/lib/hard"));
        for path in ["usr/lib", "usr/lib/a", "usr"] {
            assert_eq!(place.root().join(path).metadata().unwrap().mtime(), 1_000_000_000, "{path}");
        }
    }
    links_lead_nowhere_but_into_the_tree => {
        let place = Place::new();
        place.unpack(
            Archive::new()
                .dir("d", 0o755)
                .symlink("up", "../outside")
                .symlink("abs", "/d")
                .symlink("d/far", "/../../../../d")
                .file("abs/in", "1")
                .file("d/far/in2", "2")
                .link("hard", "abs/in"),
        );
        assert_eq!((place.read("d/in"), place.read("d/in2"), place.read("hard")), ("1".into(), "2".into(), "1".into()));
        // `up` would lead to `outside` in the tree, which is not there.
        let error = Place::refuse(Archive::new().symlink("up", "../outside").file("up/f", "x"));
        assert!(matches!(error, UnpackError::InTheWay { .. }), "{error}");
        // A file takes the place of a link and is not written through it.
        let place = Place::new();
        place.unpack(Archive::new().symlink("f", "../outside/f").file("f", "x"));
        assert!(place.root().join("f").symlink_metadata().unwrap().is_file());
        let place = Place::new();
        place.unpack(Archive::new().symlink("d", "/../outside").dir("d", 0o700).file("d/f", "x"));
        assert_eq!(place.read("d/f"), "x");
    }
    names_that_climb_are_refused => {
        for name in ["../outside/g", "a/../../outside/g", "/../x", ".."] {
            let error = Place::refuse(Archive::new().file(name, "x"));
            assert!(matches!(error, UnpackError::Escapes { .. }), "{name}: {error}");
            let error = Place::refuse(Archive::new().dir(name, 0o755));
            assert!(matches!(error, UnpackError::Escapes { .. }), "{name}: {error}");
            let error = Place::refuse(Archive::new().link("l", name));
            assert!(matches!(error, UnpackError::Escapes { .. }), "{name}: {error}");
        }
    }
    hard_links_need_an_earlier_file => {
        for target in ["nothing", "d", "", "/etc/passwd", "up/f"] {
            let error = Place::refuse(Archive::new().dir("d", 0o755).symlink("up", "../outside").link("l", target));
            assert!(matches!(error, UnpackError::LinkTarget { .. }), "{target}: {error}");
        }
        // The link itself, and not what it names outside.
        let place = Place::new();
        place.unpack(Archive::new().symlink("s", "../outside/f").link("l", "s"));
        assert!(place.root().join("l").symlink_metadata().unwrap().is_symlink());
        // A link to itself stays.
        let place = Place::new();
        place.unpack(Archive::new().file("a", "x").link("a", "a"));
        assert_eq!(place.read("a"), "x");
    }
    devices_and_fifos_are_left_out_and_told => {
        let place = Place::new();
        let report = place.unpack(
            Archive::new()
                .file("a", "a")
                .raw(EntryType::Char, b"dev/null", b"", 0o666, b"")
                .raw(EntryType::Block, b"dev/sda", b"", 0o666, b"")
                .raw(EntryType::Fifo, b"p", b"", 0o666, b"")
                .raw(EntryType::new(b'Z'), b"z", b"", 0o666, b"zz")
                .file("b", "b"),
        );
        assert_eq!((report.entries, report.skipped_count), (2, 4));
        let what: Vec<_> = report.skipped.iter().map(|skipped| skipped.what).collect();
        assert_eq!(what, ["device", "device", "fifo", "entry of an unknown kind"]);
        assert!(!place.root().join("p").exists() && !place.root().join("dev/null").exists());
    }
    later_entries_win_but_not_over_full_directories => {
        let place = Place::new();
        place.unpack(Archive::new().file("a", "1").file("a", "2").dir("e", 0o755).file("e", "f").file("g", "").dir("g", 0o711));
        assert_eq!((place.read("a"), place.read("e"), place.mode("g")), ("2".into(), "f".into(), 0o711));
        for archive in [
            Archive::new().file("d/f", "x").file("d", "y"),
            Archive::new().file("d", "x").file("d/f", "y"),
            Archive::new().file("/", "x"),
        ] {
            let error = Place::refuse(archive);
            assert!(matches!(error, UnpackError::InTheWay { .. }), "{error}");
        }
    }
    long_names_come_whole_and_endless_ones_are_refused => {
        let long = format!("d/{}/{}", "x".repeat(200), "y".repeat(200));
        let place = Place::new();
        let mut archive = Archive::new();
        let mut header = Header::new_gnu();
        header.set_size(1);
        header.set_mode(0o600);
        header.set_uid(0);
        header.set_gid(0);
        archive.0.append_data(&mut header.clone(), &long, &b"x"[..]).unwrap();
        header.set_size(0);
        header.set_entry_type(EntryType::Symlink);
        archive.0.append_link(&mut header, "l", &long).unwrap();
        archive.0.append_pax_extensions([("path", &b"pax"[..]), ("mtime", b"5.25")]).unwrap();
        place.unpack(archive.file("ignored", "p"));
        assert_eq!((place.read(&long), place.read("l"), place.read("pax")), ("x".into(), "x".into(), "p".into()));
        let pax = place.root().join("pax").metadata().unwrap();
        assert_eq!((pax.mtime(), pax.mtime_nsec()), (5, 250_000_000));
        let name = vec![b'n'; 1 << 20];
        for kind in [EntryType::GNULongName, EntryType::GNULongLink] {
            let error = Place::refuse(Archive::new().raw(kind, b"x", b"", 0, &name).file("a", ""));
            assert!(matches!(error, UnpackError::TooLongName { .. }), "{error}");
        }
    }
    bombs_are_stopped => {
        let mut zeros = Archive::new();
        let mut header = Header::new_ustar();
        header.set_path("zeros").unwrap();
        header.set_size(64 << 20);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_cksum();
        zeros.0.append(&header, std::io::Read::take(std::io::repeat(0), 64 << 20)).unwrap();
        let bytes = zeros.bytes();
        let limits = Limits { bytes: 1 << 20, ..Limits::default() };
        for packed in [gzip(&bytes), zstd(&bytes), bytes.clone()] {
            let error = Place::new().try_unpack(&packed, &limits).unwrap_err();
            assert!(matches!(error, UnpackError::TooLarge { limit: 1_048_576 }), "{error}");
        }
        // The control: with room enough it is unpacked.
        assert_eq!(Place::new().try_unpack(&gzip(&bytes), &Limits::default()).unwrap().bytes, 64 << 20);
        // The same by how much more it becomes than it is; what is not packed is as long as it is.
        let dense = Limits { ratio_from: 1 << 20, ..Limits::default() };
        for packed in [gzip(&bytes), zstd(&bytes)] {
            let error = Place::new().try_unpack(&packed, &dense).unwrap_err();
            assert!(matches!(error, UnpackError::TooDense { ratio: 100 }), "{error}");
        }
        assert_eq!(Place::new().try_unpack(&bytes, &dense).unwrap().bytes, 64 << 20);
        // Content that is left out counts too.
        let skipped = Archive::new().raw(EntryType::new(b'Z'), b"z", b"", 0, &vec![0; 2 << 20]).file("a", "");
        let error = Place::new().try_unpack(&skipped.bytes(), &limits).unwrap_err();
        assert!(matches!(error, UnpackError::TooLarge { .. }), "{error}");
        let many = (0..20).fold(Archive::new(), |archive, n| archive.file(&n.to_string(), ""));
        let limits = Limits { entries: 10, ..Limits::default() };
        let error = Place::new().try_unpack(&many.bytes(), &limits).unwrap_err();
        assert!(matches!(error, UnpackError::TooMany { limit: 10 }), "{error}");
    }
    images_of_layers_are_named_and_refused => {
        let layout = Archive::new().file("oci-layout", "{}").file("index.json", "{}");
        let saved = Archive::new().file("abc/layer.tar", "").file("manifest.json", "[]");
        let new = Archive::new().dir("blobs/sha256", 0o755).file("manifest.json", "[]");
        for archive in [layout, saved, new] {
            let error = Place::refuse(archive);
            assert!(matches!(error, UnpackError::Container { .. }), "{error}");
        }
        // The control: these names alone are fine.
        Place::new().unpack(Archive::new().file("manifest.json", "[]").file("opt/oci-layout", ""));
    }
    other_files_are_refused_by_name => {
        let try_bytes = |bytes: &[u8]| Place::new().try_unpack(bytes, &Limits::default()).unwrap_err();
        for (start, name) in [(&b"\xfd7zXZ\0\0\0"[..], "xz"), (b"BZh91AY&", "bzip2"), (b"PK\x03\x04....", "zip")] {
            let error = try_bytes(start);
            assert!(matches!(error, UnpackError::Compression { name: found } if found == name), "{error}");
        }
        assert!(matches!(try_bytes(b""), UnpackError::Empty));
        assert!(matches!(try_bytes(&[0; 4096]), UnpackError::Empty));
        let text = "no archive ".repeat(100);
        assert!(matches!(try_bytes(text.as_bytes()), UnpackError::Damaged { .. }));
        // Cut off in the middle of a file, at each layer.
        let whole = Archive::new().file("a", &"x".repeat(100_000)).bytes();
        for packed in [whole.clone(), gzip(&whole), zstd(&whole)] {
            let error = try_bytes(&packed[..packed.len() / 2]);
            assert!(matches!(error, UnpackError::Damaged { .. }), "{error}");
        }
    }
    an_image_is_unpacked_once => {
        let place = Place::new();
        let images = Images::open(&place.dir.path().join("cache")).unwrap();
        let file = place.dir.path().join("image.tar.gz");
        std::fs::write(&file, gzip(&Archive::new().dir("d", 0o555).file("d/a", "a").bytes())).unwrap();
        let get = || images.get(&file, &Limits::default());
        let Image { root, digest, report } = get().unwrap();
        assert_eq!(report.unwrap().entries, 2);
        let sum = Command::new("sha256sum").arg(&file).output().unwrap().stdout;
        assert!(String::from_utf8(sum).unwrap().starts_with(&digest));
        assert_eq!(std::fs::read_to_string(root.join("d/a")).unwrap(), "a");
        let again = get().unwrap();
        assert_eq!((again.root, again.digest, again.report), (root.clone(), digest, None));
        // Known by its times, once these are old enough.
        Command::new("touch").args(["-d", "2001-01-01"]).arg(&file).status().unwrap();
        assert_eq!(get().unwrap().report, None);
        // Other content is another image, and one that fails leaves nothing.
        std::fs::write(&file, Archive::new().file("b", "b").bytes()).unwrap();
        let other = get().unwrap();
        assert_ne!(other.root, root);
        std::fs::write(&file, "nothing").unwrap();
        let killed = place.dir.path().join("cache/images/.new-killed");
        std::fs::create_dir_all(killed.join("rootfs/x")).unwrap();
        std::fs::set_permissions(killed.join("rootfs"), PermissionsExt::from_mode(0o0)).unwrap();
        assert!(matches!(get().unwrap_err(), ImageError::Unpack { .. }));
        let names = std::fs::read_dir(place.dir.path().join("cache/images")).unwrap();
        assert_eq!(names.count(), 3, "two images and what is known");
        let fifo = place.dir.path().join("fifo");
        Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(matches!(images.get(&fifo, &Limits::default()), Err(ImageError::NotAFile { kind: "fifo", .. })));
        assert!(matches!(images.get(&place.root(), &Limits::default()), Err(ImageError::NotAFile { .. })));
    }
    what_gnu_tar_packs_comes_out_the_same => {
        let place = Place::new();
        let script = "mkdir -p src/a/b src/empty; echo x > src/a/x; ln src/a/x src/a/y; ln -s ../a/x src/a/b/l; chmod 750 src/a; chmod 600 src/a/x; \
            touch -d 2001-02-03T04:05:06.789 src/a/x src/a/b; for f in gnu pax ustar; do tar --format=$f -C src -cf $f.tar .; done; gzip -k gnu.tar; zstd -q pax.tar";
        let status = Command::new("bash").args(["-euc", script]).current_dir(place.dir.path()).status().unwrap();
        assert!(status.success());
        for name in ["gnu.tar", "pax.tar", "ustar.tar", "gnu.tar.gz", "pax.tar.zst"] {
            let place_of_one = Place::new();
            let bytes = std::fs::read(place.dir.path().join(name)).unwrap();
            place_of_one.try_unpack(&bytes, &Limits::default()).unwrap();
            let list = "find . -mindepth 1 -printf '%p %y %m %n %l %T@\\n' | sed 's/\\.[0-9]*$//' | sort";
            let of = |dir: PathBuf| Command::new("bash").args(["-euc", list]).current_dir(dir).output().unwrap().stdout;
            let (found, expected) = (of(place_of_one.root()), of(place.dir.path().join("src")));
            assert_eq!(String::from_utf8(found).unwrap(), String::from_utf8(expected).unwrap(), "{name}");
        }
    }
}

#[test]
fn owners_are_kept_for_root() {
    if !may_as_root() {
        return;
    }
    let place = Place::new();
    let mut header = Header::new_ustar();
    header.set_path("a").unwrap();
    header.set_size(0);
    header.set_mode(0o644);
    header.set_uid(1234);
    header.set_gid(4321);
    header.set_cksum();
    let mut archive = Archive::new();
    archive.0.append(&header, &b""[..]).unwrap();
    place.unpack(archive);
    let found = place.root().join("a").metadata().unwrap();
    assert_eq!((found.uid(), found.gid()), (1234, 4321));
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

/// One file of a generated tree.
#[derive(Debug, Clone)]
enum Node {
    File(Vec<u8>, u32),
    Link(String),
    Dir(u32),
}

fn node() -> impl Strategy<Value = Node> {
    prop_oneof![
        (proptest::collection::vec(any::<u8>(), 0..600), 0o400_u32..0o1000)
            .prop_map(|(c, m)| Node::File(c, m)),
        "[a-z./]{1,20}".prop_map(Node::Link),
        (0o700_u32..0o1000).prop_map(Node::Dir),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_tree_makes_the_round_trip(
        nodes in proptest::collection::btree_map("[a-d]{1,3}", node(), 1..12),
        packing in 0..3,
    ) {
        // Flat names: what lies in what is covered by the tests above.
        let mut archive = Archive::new();
        for (name, node) in &nodes {
            archive = match node {
                Node::File(content, mode) => archive.raw(EntryType::Regular, name.as_bytes(), b"", *mode, content),
                Node::Link(target) => archive.symlink(name, target),
                Node::Dir(mode) => archive.dir(name, *mode),
            };
        }
        let bytes = archive.bytes();
        let packed = match packing { 0 => bytes, 1 => gzip(&bytes), _ => zstd(&bytes) };
        let place = Place::new();
        place.try_unpack(&packed, &Limits::default()).unwrap();
        let found: BTreeMap<String, ()> = std::fs::read_dir(place.root()).unwrap()
            .map(|entry| (entry.unwrap().file_name().into_string().unwrap(), ())).collect();
        prop_assert!(found.keys().eq(nodes.keys()));
        for (name, node) in &nodes {
            let path = place.root().join(name);
            match node {
                Node::File(content, mode) => {
                    prop_assert_eq!(&std::fs::read(&path).unwrap(), content);
                    prop_assert_eq!(place.mode(name), *mode);
                }
                Node::Link(target) => prop_assert_eq!(std::fs::read_link(&path).unwrap(), Path::new(target)),
                Node::Dir(mode) => prop_assert_eq!(place.mode(name), *mode),
            }
        }
    }

    #[test]
    fn any_bytes_end_in_an_answer(mut bytes in proptest::collection::vec(any::<u8>(), 0..3000), start in 0..4) {
        let magic: &[u8] = match start { 0 => b"\x1f\x8b\x08", 1 => b"\x28\xb5\x2f\xfd", _ => b"" };
        bytes.splice(..0, magic.iter().copied());
        Place::new().try_unpack(&bytes, &Limits { bytes: 1 << 20, entries: 100, ..Limits::default() }).ok();
    }
}
