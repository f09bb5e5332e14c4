//! Overlays on the real kernel.

use atoll_jail::overlay::mount_apart;
use rustix::fs::{Mode, OFlags, openat};
use std::ffi::OsStr;
use std::fs;
use std::os::fd::AsFd as _;

/// As it is where the kernel takes no layer that is attached nowhere.
#[test]
fn a_layer_that_is_attached_nowhere_is_attached_apart() {
    if !rustix::process::geteuid().is_root() {
        let why = "only root mounts an overlay outside of a user namespace";
        return crate::skip("overlay-of-root", why);
    }
    let top = tempfile::tempdir().unwrap();
    let [base, project, layers] = ["base", "project", "layers"].map(|name| top.path().join(name));
    for directory in [&base, &project, &layers, &layers.join("upper"), &layers.join("work")] {
        fs::create_dir(directory).unwrap();
    }
    fs::write(project.join("old"), "lower").unwrap();
    fs::write(base.join("old"), "lowest").unwrap();
    fs::write(base.join("oldest"), "lowest").unwrap();
    let before = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let lower = atoll_jail::tree::clone(&project, None, None).unwrap();
    let base = atoll_jail::tree::open(&base, None).unwrap();
    let open = atoll_jail::tree::open(&layers, None).unwrap();
    // As after an attempt that failed.
    let mark = layers.join("work/work/incompat/volatile");
    fs::create_dir_all(&mark).unwrap();
    fs::write(mark.join("dirty"), "").unwrap();
    let names = [OsStr::new("upper"), OsStr::new("work")];
    let overlay = mount_apart(&[base.as_fd(), lower.as_fd()], open.as_fd(), names).unwrap();
    let write = |name: &str, text: &str| {
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC;
        let file = openat(&overlay, name, flags, Mode::RUSR | Mode::WUSR).unwrap();
        rustix::io::write(&file, text.as_bytes()).unwrap();
    };
    let read = |name: &str| {
        let file = openat(&overlay, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        std::io::read_to_string(fs::File::from(file)).unwrap()
    };
    assert_eq!([read("old"), read("oldest")], ["lower", "lowest"]);
    write("old", "upper");
    write("new", "new");
    assert_eq!(fs::read_to_string(project.join("old")).unwrap(), "lower");
    assert_eq!(fs::read_to_string(layers.join("upper/old")).unwrap(), "upper");
    assert_eq!(fs::read_to_string(layers.join("upper/new")).unwrap(), "new");
    let after = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert_eq!(after, before, "nothing was mounted on the host");
}
