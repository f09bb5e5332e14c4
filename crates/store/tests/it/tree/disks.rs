//! Copies on file systems that are made for the test.

use super::copy::{EVERYTHING, check_mappings, with_attributes};
use super::*;
use atoll_store::tree::Step;
use atoll_testkit::run::again_as_ordinary;
use atoll_testkit::skip::skip;
use std::os::unix::fs::PermissionsExt;

/// File systems in an image each, in a mount table of this thread alone, so that they go
/// with it. For the ordinary user that the test is run again as they are there already.
struct Disks {
    image: Option<tempfile::TempDir>,
    root: PathBuf,
    kinds: Vec<&'static str>,
}

const EXT4: &str = "ext4";
const XFS: &str = "xfs";
const BTRFS: &str = "btrfs";

impl Disks {
    fn new(kinds: &[&'static str]) -> Self {
        let owner = if is_root() {
            std::process::id()
        } else {
            rustix::process::getppid().unwrap().as_raw_nonzero().get().cast_unsigned()
        };
        let root = std::env::temp_dir().join(format!("atoll-disks-{owner}"));
        let mut disks = Self { image: None, root, kinds: Vec::new() };
        if is_root() {
            disks.make(kinds);
        } else {
            let is_there = |kind: &&'static str| disks.root.join(kind).join("here").exists();
            disks.kinds = kinds.iter().copied().filter(is_there).collect();
            if disks.kinds.is_empty() {
                skip("tree-disks", "run by an ordinary user, or nothing can be mounted");
            }
        }
        disks
    }

    fn make(&mut self, kinds: &[&'static str]) {
        if atoll_sys::mount::unshare_mounts().is_err() {
            return skip("tree-disks", "run by an ordinary user, or nothing can be mounted");
        }
        let images = tempfile::tempdir().unwrap();
        for kind in kinds {
            let (image, place) = (images.path().join(kind), self.root.join(kind));
            fs::create_dir_all(&place).unwrap();
            File::create(&image).unwrap().set_len(512 << 20).unwrap();
            let made = Command::new(format!("mkfs.{kind}")).arg("-q").arg(&image).output();
            if made.is_err() {
                skip(&format!("tree-{kind}"), &format!("mkfs.{kind} is not installed"));
                continue;
            }
            let made = made.unwrap();
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            let mounted = Command::new("mount")
                .args(["-t", kind, "-o", "loop"])
                .arg(&image)
                .arg(&place)
                .output()
                .unwrap();
            if !mounted.status.success() {
                skip("tree-disks", "run by an ordinary user, or nothing can be mounted");
                continue;
            }
            fs::set_permissions(&place, PermissionsExt::from_mode(0o1777)).unwrap();
            fs::write(place.join("here"), "").unwrap();
            self.kinds.push(kind);
        }
        self.image = Some(images);
    }

    fn path(&self, kind: &str) -> PathBuf {
        self.root.join(kind)
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        if self.image.is_some() {
            for kind in &self.kinds {
                rustix::mount::unmount(self.path(kind), rustix::mount::UnmountFlags::DETACH).ok();
            }
            fs::remove_dir_all(&self.root).ok();
        }
    }
}

/// Runs a test on each file system, as root and as an ordinary user.
fn on_each(name: &str, kinds: &[&'static str], test: fn(&str, Case)) {
    let disks = Disks::new(kinds);
    for kind in &disks.kinds {
        test(kind, Case::within(&disks.path(kind)));
    }
    if is_root() && !disks.kinds.is_empty() {
        again_as_ordinary(name);
    }
}

#[test]
fn everything_is_copied_and_linked() {
    on_each(
        "tree::disks::everything_is_copied_and_linked",
        &[EXT4, XFS, BTRFS],
        |kind, mut case| {
            case.run(EVERYTHING);
            with_attributes(&case);
            let first = case.copy();
            case.check();
            // One of 300,000 bytes, and a sparse one.
            let shared = if kind == EXT4 { 0 } else { 2 };
            assert_eq!(first.reflinked, shared, "{kind}");
            case.run("chmod -R u+rX .");
            Case::tick();
            case.copy();
            let third = case.copy();
            assert_eq!((third.copied, third.reflinked, third.bytes_copied), (0, 0, 0), "{kind}");
            assert_eq!(third.linked, first.copied + first.reflinked, "{kind}");
            case.run("echo more >>dir/deeper/large");
            let fourth = case.copy();
            case.check();
            assert_eq!(fourth.copied + fourth.reflinked, 1, "{kind}");
            let copies = File::open(case.copied(3)).unwrap();
            tree::sync(copies.as_fd()).unwrap();
        },
    );
}

#[test]
fn a_store_through_a_mapping_is_noticed() {
    on_each("tree::disks::a_store_through_a_mapping_is_noticed", &[EXT4, XFS, BTRFS], |_, case| {
        check_mappings(case);
    });
}

#[test]
fn a_shared_file_is_as_it_was_when_mapped() {
    on_each(
        "tree::disks::a_shared_file_is_as_it_was_when_mapped",
        &[XFS, BTRFS],
        |kind, mut case| {
            // Long enough to be shared.
            fs::write(case.source().join("large"), vec![b'-'; 1 << 20]).unwrap();
            let copied = case.copy();
            assert_eq!((copied.reflinked, copied.bytes_copied), (1, 0), "{kind}");
            fs::write(case.source().join("large"), vec![b'+'; 1 << 20]).unwrap();
            assert_eq!(fs::read(case.copied(0).join("large")).unwrap(), vec![b'-'; 1 << 20]);
        },
    );
}

#[test]
fn file_systems_without_dependable_times_link_nothing() {
    let Some(place) = tmpfs("size=64m") else { return };
    let mut case = Case::within(&place.0);
    case.run("echo x >file");
    Case::tick();
    case.copy();
    let second = case.copy();
    assert_eq!((second.linked, second.copied), (0, 1));
    check_mappings(Case::within(&place.0));
}

#[test]
fn a_file_with_as_many_names_as_there_can_be_is_copied() {
    let disks = Disks::new(&[EXT4]);
    if disks.kinds.is_empty() {
        return;
    }
    let mut case = Case::within(&disks.path(EXT4));
    case.run("echo x >a; ln a b; ln a c; echo y >other");
    Case::tick();
    case.copy();
    // The file system allows 65,000 names.
    let (first, names) = (case.copied(0).join("a"), case.base.join("names"));
    fs::create_dir(&names).unwrap();
    let made =
        (0..).take_while(|number| fs::hard_link(&first, names.join(format!("{number}"))).is_ok());
    assert!(made.count() > 64_000);
    let second = case.copy();
    assert_eq!((second.linked, second.copied, second.hard_links), (1, 1, 2));
    case.check();
    // One is left: the first name of the copy is a link, the second cannot be one.
    fs::remove_file(names.join("7")).unwrap();
    case.indices.pop();
    fs::rename(case.copied(1), case.base.join("old")).unwrap();
    fs::remove_file(case.base.join("index-1")).unwrap();
    let third = case.copy();
    assert_eq!((third.linked, third.copied, third.hard_links), (2, 1, 1));
    assert_eq!(fs::read(case.copied(1).join("c")).unwrap(), b"x\n");
}

/// A small file system in memory, for this thread alone.
struct Tmpfs(PathBuf, #[expect(dead_code, reason = "goes last")] tempfile::TempDir);

fn tmpfs(options: &str) -> Option<Tmpfs> {
    if !crate::support::may_as_root() {
        return None;
    }
    let root = tempfile::tempdir().unwrap();
    if atoll_sys::mount::unshare_mounts().is_err() {
        skip("tree-disks", "run by an ordinary user, or nothing can be mounted");
        return None;
    }
    let place = root.path().join("tmpfs");
    fs::create_dir(&place).unwrap();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&place).status();
    assert!(mounted.unwrap().success());
    Some(Tmpfs(place, root))
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH).ok();
    }
}

/// Copies to another place; the copy is removed again.
fn copy_to(case: &Case, place: &Path) -> Result<Copied, CopyError> {
    fs::create_dir(place.join("copy")).unwrap();
    let (source, copy) =
        (File::open(case.source()).unwrap(), File::open(place.join("copy")).unwrap());
    let outcome = tree::copy(source.as_fd(), copy.as_fd(), None, &|| false);
    let place = File::open(place).unwrap();
    atoll_store::remove(place.as_fd(), OsStr::new("copy")).unwrap();
    outcome.map(|(copied, _)| copied)
}

#[test]
fn a_full_disk_names_the_file() {
    let Some(place) = tmpfs("size=2m,nr_inodes=50") else { return };
    let case = Case::new();
    case.run("mkdir -p a/b; head -c 1000000 /dev/urandom >a/small; head -c 1500000 /dev/urandom >a/b/large");
    let before = Listing::of(&case.source());
    let error = copy_to(&case, &place.0).unwrap_err();
    assert!(
        matches!(&error, CopyError::NoSpace { path, step: Step::CopyContent, .. } if path == Path::new("a/b/large")),
        "{error:?}"
    );
    assert_eq!(
        error.to_string(),
        "no space is left on the disk to copy the content of \"a/b/large\""
    );
    case.run("rm a/b/large; for i in {10..70}; do : >a/b/$i; done; rm a/small");
    let error = copy_to(&case, &place.0).unwrap_err();
    assert!(matches!(&error, CopyError::NoSpace { step: Step::Make, .. }), "{error:?}");
    case.run("rm a/b/??; head -c 1000000 /dev/zero >a/small");
    assert_eq!(copy_to(&case, &place.0).unwrap().files, 1);
    assert!(before.lines.len() > 1);
}

#[test]
fn a_quota_that_is_used_up_is_said() {
    let disks = Disks::new(&[BTRFS]);
    if disks.kinds.is_empty() {
        return;
    }
    let place = disks.path(BTRFS).join("limited");
    let run = |arguments: &[&str]| {
        let output = Command::new("btrfs").args(arguments).arg(&place).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(&["subvolume", "create"]);
    run(&["quota", "enable"]);
    run(&["qgroup", "limit", "4M"]);
    let case = Case::new();
    case.run("head -c 9000000 /dev/urandom >large");
    let error = copy_to(&case, &place).unwrap_err();
    assert!(
        matches!(&error, CopyError::OverQuota { path, .. } if path == Path::new("large")),
        "{error:?}"
    );
    case.run("head -c 1000000 /dev/urandom >large");
    copy_to(&case, &place).unwrap();
}

#[test]
fn subvolumes_are_made_and_copied_as_a_whole() {
    on_each("tree::disks::subvolumes_are_made_and_copied_as_a_whole", &[BTRFS], |_, mut case| {
        let base = File::open(&case.base).unwrap();
        let base = base.as_fd();
        let name = |name: &'static str| OsStr::new(name);
        assert!(!tree::is_subvolume(File::open(case.source()).unwrap().as_fd()).unwrap());
        fs::remove_dir(case.source()).unwrap();
        assert!(tree::create_subvolume(base, name("source")).unwrap());
        assert!(tree::create_subvolume(base, name("source")).is_err(), "it is there already");
        let source = File::open(case.source()).unwrap();
        assert!(tree::is_subvolume(source.as_fd()).unwrap());
        case.run(EVERYTHING);
        with_attributes(&case);
        tree::snapshot(source.as_fd(), base, name("snapshot")).unwrap();
        let snapshot = case.base.join("snapshot");
        Listing::of(&snapshot).assert_is(&Listing::of(&case.source()));
        assert!(tree::is_subvolume(File::open(&snapshot).unwrap().as_fd()).unwrap());
        case.run("echo more >dir/file");
        assert_eq!(fs::read(snapshot.join("dir/file")).unwrap(), b"hello");
        // With another within, file by file.
        let inner = File::open(case.source().join("dir/deeper")).unwrap();
        tree::create_subvolume(inner.as_fd(), name("inner")).unwrap();
        case.run("mkdir -p dir/deeper/inner/a/b; echo x >dir/deeper/inner/a/b/c");
        let innermost = File::open(case.source().join("dir/deeper/inner/a/b")).unwrap();
        tree::create_subvolume(innermost.as_fd(), name("innermost")).unwrap();
        case.run(
            "mkdir -p dir/deeper/inner/a/b/innermost/d; echo x >dir/deeper/inner/a/b/innermost/d/e",
        );
        let refused = tree::snapshot(source.as_fd(), base, name("refused"));
        assert!(matches!(refused, Err(tree::SubvolumeError::Nested)), "{refused:?}");
        assert!(!case.base.join("refused").exists());
        case.copy();
        case.check();
        for tree in ["snapshot", "source"] {
            atoll_store::remove(base, name(tree)).unwrap();
            assert!(!case.base.join(tree).exists());
        }
        fs::create_dir(case.source()).unwrap();
    });
}

#[test]
fn elsewhere_there_are_no_subvolumes() {
    let case = Case::new();
    let (base, source) = (File::open(&case.base).unwrap(), File::open(case.source()).unwrap());
    if tree::create_subvolume(base.as_fd(), OsStr::new("new")).unwrap() {
        return assert!(
            tree::is_subvolume(File::open(case.base.join("new")).unwrap().as_fd()).unwrap()
        );
    }
    assert!(!case.base.join("new").exists());
    assert!(!tree::is_subvolume(source.as_fd()).unwrap());
    let refused = tree::snapshot(source.as_fd(), base.as_fd(), OsStr::new("new"));
    assert!(matches!(refused, Err(tree::SubvolumeError::Snapshot { .. })), "{refused:?}");
}
