//! One copy, and the next one.

use super::*;
use rustix::fs::{AtFlags, Timespec, Timestamps, UTIME_OMIT};
use std::cell::Cell;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt};

pub(super) const EVERYTHING: &str = r#"
    mkdir -p dir/deeper/deepest "odd"$'\n'"name"; mkdir -m 1777 sticky; mkdir -m 2750 group; mkdir -m 000 shut-dir.tmp
    printf hello >dir/file; printf '' >empty; head -c 300000 /dev/urandom >dir/deeper/large
    ln dir/file dir/second; ln dir/file dir/deeper/third; ln -s ../nowhere dir/link; ln -s "$(printf 'x%.0s' {1..1000})" long-link
    printf shut >secret; chmod 000 secret; printf setuid >setuid; chmod 4755 setuid; printf x >read-only; chmod 444 read-only
    mkfifo -m 640 fifo; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
    ln fifo dir/fifo-again; ln -P dir/link link-again
    truncate -s 5M sparse; printf x | dd of=sparse bs=1 seek=2000000 conv=notrunc status=none
    printf '\303\050' >"$(printf '\377\376')"
    mknod dir/whiteout c 0 0; ln dir/whiteout dir/whiteout-again
    touch -d '1969-12-31 23:59:58.123456789 UTC' old; touch -d '2100-01-01 00:00:00.987654321 UTC' dir/deeper/new
    touch -h -d '2001-02-03 04:05:06.7 UTC' dir/link
    mv shut-dir.tmp shut-dir; chmod 700 shut-dir; printf in >shut-dir/inside; chmod 000 shut-dir/inside; chmod 000 shut-dir
    mkdir shut-dir-2; mkdir shut-dir-2/in; printf x >shut-dir-2/in/x; chmod 300 shut-dir-2/in; chmod 600 shut-dir-2
"#;

fn set_attribute(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(path, name, value, rustix::fs::XattrFlags::empty()).unwrap();
}

/// Owner rwx, user 4242 r-x, group r-x, mask r-x, others nothing. Source: acl(5) and the
/// kernel's `include/uapi/linux/posix_acl_xattr.h`.
const ACL: [u8; 44] = [
    2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 2, 0, 5, 0, 0x92, 0x10, 0, 0, 4, 0, 5, 0, 255, 255,
    255, 255, 0x10, 0, 5, 0, 255, 255, 255, 255, 0x20, 0, 0, 0, 255, 255, 255, 255,
];

pub(super) fn with_attributes(case: &Case) {
    let path = |name: &str| case.source().join(name);
    set_attribute(&path("dir/file"), "user.note", b"kept");
    set_attribute(&path("dir/file"), "user.overlay.origin", b"");
    set_attribute(&path("dir"), "user.overlay.opaque", b"y");
    set_attribute(&path("dir"), "user.long", &[7; 2000]);
    set_attribute(&path("dir/deeper"), "system.posix_acl_default", &ACL);
    set_attribute(&path("dir/deeper/large"), "system.posix_acl_access", &ACL);
    set_attribute(&case.source(), "user.of-the-top", b"1");
    if is_root() {
        set_attribute(&path("dir/deeper"), "trusted.overlay.redirect", b"/elsewhere");
        set_attribute(&path("empty"), "trusted.overlay.origin", b"\x00\xfb");
        rustix::fs::lsetxattr(
            path("dir/link"),
            "trusted.overlay.origin",
            b"l",
            rustix::fs::XattrFlags::empty(),
        )
        .unwrap();
        // cap_net_bind_service, effective and permitted. Source: capabilities(7).
        let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        set_attribute(&path("setuid"), "security.capability", &capability);
        std::os::unix::fs::lchown(path("dir/link"), Some(70_001), Some(70_002)).unwrap();
        std::os::unix::fs::chown(path("old"), Some(70_001), Some(70_002)).unwrap();
    }
}

#[test]
fn everything_is_copied_exactly() {
    as_root_and_user("tree::copy::everything_is_copied_exactly", || {
        let mut case = Case::new();
        case.run(EVERYTHING);
        with_attributes(&case);
        case.run("touch -d '2002-02-02 02:02:02.000000002 UTC' .; chmod 2751 .");
        let before = Listing::of(&case.source());
        Case::tick();
        let copied = case.copy();
        case.check();
        Listing::of(&case.source()).assert_is(&before);
        assert_eq!(copied.left_out, 0);
        assert_eq!(copied.linked, 0);
        assert_eq!(copied.hard_links, 5);
        assert_eq!(copied.files, copied.hard_links + copied.copied + copied.reflinked);
        let files = before.lines.values().filter(|line| !line.contains("is_dir: true")).count();
        assert_eq!(copied.files + copied.directories, before.lines.len() as u64, "{files}");
        assert!(copied.bytes_total > 5 << 20 && copied.bytes_copied < 1 << 20, "{copied:?}");
    });
}

#[test]
fn what_has_not_changed_is_linked() {
    as_root_and_user("tree::copy::what_has_not_changed_is_linked", || {
        let mut case = Case::new();
        if !case.links() {
            return;
        }
        case.run(EVERYTHING);
        with_attributes(&case);
        // To read what is shut, its mode is changed for a moment, and so its change time.
        case.run("chmod -R u+rX .");
        Case::tick();
        let first = case.copy();
        let second = case.copy();
        assert_eq!((second.copied, second.bytes_copied, second.reflinked), (0, 0, 0));
        assert_eq!(second.linked, first.copied);
        assert_eq!((second.files, second.bytes_total), (first.files, first.bytes_total));
        let inode = |number: usize| case.copied(number).join("dir/file").metadata().unwrap().ino();
        assert_eq!(inode(0), inode(1));
        case.check();
        // And so on, from a copy of a copy, also where directories were moved.
        case.run("mv dir moved; mkdir dir; mv moved/deeper dir/");
        let third = case.copy();
        assert_eq!((third.copied, third.bytes_copied), (0, 0));
        case.check();
    });
}

#[test]
fn what_has_changed_is_copied() {
    as_root_and_user("tree::copy::what_has_changed_is_copied", || {
        let mut case = Case::new();
        if !case.links() {
            return;
        }
        case.run("mkdir d; for i in 1 2 3 4 5 6 7 8 9; do echo $i >d/$i; done; ln d/9 d/nine");
        Case::tick();
        case.copy();
        let before = Listing::of(&case.copied(0));
        // Content, mode, attribute, replaced by rename, replaced by another kind, a further
        // name, one name less; and of the same length with the old time.
        case.run("echo more >>d/1; chmod 600 d/2; echo new >d/x; mv d/x d/4; rm d/5; mkdir d/5; ln d/6 d/six; rm d/nine");
        set_attribute(&case.source().join("d/3"), "user.a", b"b");
        let same = case.source().join("d/7");
        let time = same.metadata().unwrap();
        let file = File::options().write(true).open(&same).unwrap();
        file.write_all_at(b"!", 0).unwrap();
        let modified = Timespec { tv_sec: time.mtime(), tv_nsec: time.mtime_nsec() };
        let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let times = Timestamps { last_access: omit, last_modification: modified };
        rustix::fs::utimensat(&file, "", &times, AtFlags::EMPTY_PATH).unwrap();
        assert_eq!(same.metadata().unwrap().mtime_nsec(), time.mtime_nsec());
        let second = case.copy();
        case.check();
        // d/8 alone is as it was.
        assert_eq!((second.linked, second.copied, second.hard_links), (1, 7, 1));
        assert_eq!(fs::read(case.copied(1).join("d/7")).unwrap(), b"!\n");
        Listing::of(&case.copied(0)).assert_is(&before);
    });
}

#[test]
fn a_store_through_a_mapping_is_noticed() {
    as_root_and_user("tree::copy::a_store_through_a_mapping_is_noticed", || {
        check_mappings(Case::new());
    });
}

pub(super) fn check_mappings(mut case: Case) {
    // A database that has its file mapped, writes to a page, and again after the first
    // copy, without the kernel being told in between.
    fs::write(case.source().join("db"), [b'-'; 8192]).unwrap();
    let mut child = Command::new("python3")
            .args(["-c", "import mmap, os, sys\nm = mmap.mmap(os.open('db', os.O_RDWR), 8192)\nfor line in sys.stdin:\n m[0:1] = line[:1].encode(); print('done', flush=True)"])
            .current_dir(case.source())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
    let mut replies = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut requests = child.stdin.take().unwrap();
    let mut store = |byte: &str| {
        use std::io::{BufRead as _, Write as _};
        requests.write_all(format!("{byte}\n").as_bytes()).unwrap();
        let mut reply = String::new();
        replies.read_line(&mut reply).unwrap();
        assert_eq!(reply, "done\n");
    };
    store("1");
    Case::tick();
    case.copy();
    for (number, byte) in (1..).zip(["2", "3"]) {
        store(byte);
        Case::tick();
        case.copy();
        let first = fs::read(case.copied(number).join("db")).unwrap()[0];
        assert_eq!(first, byte.as_bytes()[0], "copy {number}");
    }
    assert_eq!(fs::read(case.copied(0).join("db")).unwrap()[0], b'1');
    drop(requests);
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_was_written_in_the_moment_of_the_copy_is_not_relied_on() {
    let mut case = Case::new();
    // Later than any copy.
    let ahead = case.source().join("ahead");
    for round in 0..50 {
        fs::write(&ahead, format!("{round:04}")).unwrap();
        case.copy();
        let copied = fs::read(case.copied(round).join("ahead")).unwrap();
        assert_eq!(copied, format!("{round:04}").as_bytes(), "no time passed in between");
    }
}

#[test]
fn trees_deeper_than_any_path_are_copied() {
    as_root_and_user("tree::copy::trees_deeper_than_any_path_are_copied", || {
        let mut case = Case::new();
        let script = "import os\nfor i in range(40):\n os.mkdir('d' * 200); os.chdir('d' * 200)\nopen('bottom', 'w').write('x'); os.link('bottom', 'again'); os.mkdir('beside'); os.link('bottom', 'beside/third')";
        let made = Command::new("python3").args(["-c", script]).current_dir(case.source()).status();
        assert!(made.unwrap().success());
        Case::tick();
        for number in 0..2 {
            let copied = case.copy();
            assert_eq!((copied.directories, copied.files, copied.hard_links), (42, 3, 2));
            let look = "import os\nfor i in range(40):\n os.chdir('d' * 200)\nprint(open('bottom').read(), os.stat('beside/third').st_nlink)";
            let output = Command::new("python3")
                .args(["-c", look])
                .current_dir(case.copied(number))
                .output();
            assert_eq!(output.unwrap().stdout, b"x 3\n");
        }
    });
}

#[test]
fn a_canceled_copy_leaves_the_source_as_it_was() {
    as_root_and_user("tree::copy::a_canceled_copy_leaves_the_source_as_it_was", || {
        let mut case = Case::new();
        case.run("mkdir -p a/b/c; echo x >a/x; chmod 000 a/x; ln a/x a/b/y; echo z >a/b/c/z; chmod 000 a/b/c a/b a");
        let before = Listing::of(&case.source());
        for most in 0.. {
            let asked = Cell::new(0);
            let outcome = case.try_copy(&|| asked.replace(asked.get() + 1) >= most);
            Listing::of(&case.source()).assert_is(&before);
            match outcome {
                Ok(_) => {
                    assert!(most >= 5, "it was hardly ever asked");
                    break;
                }
                Err(error) => assert!(matches!(error, CopyError::Canceled), "{error}"),
            }
            let base = File::open(&case.base).unwrap();
            atoll_store::remove(base.as_fd(), OsStr::new("copy-0")).unwrap();
        }
        case.check();
    });
}

#[test]
fn any_tree_is_copied_whatever_was_done_to_it() {
    use super::stacks::{script, steps};
    use proptest::prelude::*;
    as_root_and_user("tree::copy::any_tree_is_copied_whatever_was_done_to_it", || {
        let config = ProptestConfig { cases: 6, failure_persistence: None, ..Default::default() };
        proptest!(config, |(rounds in prop::collection::vec(steps(), 3))| {
            let mut case = Case::new();
            case.run("mkdir -p a/b/c b/d c/a/d; echo 1 >a/b/d; echo 2 >b/a; echo 3 >c/a/b");
            case.copy();
            for steps in rounds {
                case.run(&script(&steps));
                case.copy();
                case.check();
            }
        });
    });
}

#[test]
fn devices_are_left_out() {
    if !crate::support::may_as_root() {
        return;
    }
    let mut case = Case::new();
    case.run(
        "mkdir d; mknod d/null c 1 3; mknod d/disk b 7 200; mknod d/gone c 0 0; echo x >d/file",
    );
    let copied = case.copy();
    assert_eq!((copied.left_out, copied.files), (2, 2));
    let mut names: Vec<_> = fs::read_dir(case.copied(0).join("d"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["file", "gone"]);
}

#[test]
fn a_damaged_previous_copy_is_no_hindrance() {
    let mut case = Case::new();
    if !case.links() {
        return;
    }
    case.run("mkdir d; for i in 1 2 3 4; do echo $i >d/$i; done");
    Case::tick();
    case.copy();
    let copy = case.copied(0);
    fs::remove_file(copy.join("d/1")).unwrap();
    fs::write(copy.join("d/2"), "longer than it was").unwrap();
    fs::set_permissions(copy.join("d/3"), PermissionsExt::from_mode(0o640)).unwrap();
    let second = case.copy();
    case.check();
    assert_eq!((second.linked, second.copied), (1, 3));
    fs::remove_dir_all(case.copied(1).join("d")).unwrap();
    let third = case.copy();
    case.check();
    assert_eq!((third.linked, third.copied), (0, 4));
    // A link in place of the directory leads nowhere.
    fs::rename(case.copied(2).join("d"), case.base.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("../elsewhere", case.copied(2).join("d")).unwrap();
    let fourth = case.copy();
    case.check();
    assert_eq!((fourth.linked, fourth.copied), (0, 4));
}

#[test]
fn a_tree_is_measured() {
    as_root_and_user("tree::copy::a_tree_is_measured", || {
        let case = Case::new();
        case.run("mkdir -p a/b; printf 12345 >a/five; ln a/five a/b/again; ln -s five a/link; truncate -s 1G a/sparse");
        let source = File::open(case.source()).unwrap();
        let measured = tree::measure(source.as_fd(), 100, &|| false).unwrap();
        assert_eq!((measured.files, measured.directories), (3, 3));
        assert_eq!(measured.bytes, 5 + (1 << 30));
        assert!(measured.disk_bytes < 1 << 20, "{measured:?}");
        let refused = tree::measure(source.as_fd(), 5, &|| false);
        assert!(matches!(refused, Err(tree::MeasureError::TooMany { most: 5 })));
        let canceled = tree::measure(source.as_fd(), 100, &|| true);
        assert!(matches!(canceled, Err(tree::MeasureError::Canceled)));
    });
}
