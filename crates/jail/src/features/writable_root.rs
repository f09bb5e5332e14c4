//! Trying whether a root file system can be written whose writes are kept in a directory.

use crate::overlay;
use atoll_sys::probe::{self, Failure, NEW_MOUNT, NEW_USER, Outcome};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen,
};
use std::ffi::CString;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

const TIME: Duration = Duration::from_secs(5);

/// Tries it with layers in `.probe` below `state`, which is removed again: an overlay,
/// by root with the owners of the lower layer mapped, by others in a user namespace.
///
/// # Errors
///
/// The call that failed, in words, and why.
pub fn writable_root(state: &Path) -> Result<(), String> {
    let top = state.join(".probe");
    remove(&top);
    let tried = make(&top).map_err(|error| format!("mkdir: {error}")).and_then(|()| {
        if rustix::process::geteuid().is_root() { by_root(&top) } else { inside(&top) }
    });
    remove(&top);
    tried
}

/// An overlay leaves a directory that nobody may read, and only root removes that unasked.
fn remove(top: &Path) {
    std::fs::remove_dir(top.join("w/work")).ok();
    std::fs::remove_dir_all(top).ok();
}

fn make(top: &Path) -> io::Result<()> {
    std::fs::create_dir(top)?;
    ["l", "u", "w"].into_iter().try_for_each(|name| std::fs::create_dir(top.join(name)))
}

fn by_root(top: &Path) -> Result<(), String> {
    let userns = probe::user_namespace().map_err(|error| format!("clone: {error}"))?;
    let [lower, upper, work] = ["l", "u", "w"].map(|name| top.join(name));
    let lower = overlay::Layer { path: &lower, expect: None, owners: Some(userns.as_fd()) };
    let mounted = overlay::mount_by_root(&[lower], [&upper, &work]);
    mounted.map(drop).map_err(|error| {
        let (step, errno) = error.step();
        format!("{step}: {}", io::Error::from_raw_os_error(errno.unwrap_or(0)))
    })
}

fn inside(top: &Path) -> Result<(), String> {
    let path = CString::new(top.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // In the child, which may only make system calls. A mount is looked up in its own
    // namespace, and so by name.
    let work = || {
        let at = |step| move |error: Errno| Failure { step, errno: error.raw_os_error() };
        rustix::process::chdir(path.as_c_str()).map_err(at(2))?;
        let context = fsopen(c"overlay", FsOpenFlags::FSOPEN_CLOEXEC).map_err(at(3))?;
        for (key, name) in [(c"lowerdir", c"l"), (c"upperdir", c"u"), (c"workdir", c"w")] {
            fsconfig_set_string(&context, key, name).map_err(at(4))?;
        }
        fsconfig_set_flag(&context, c"userxattr").map_err(at(4))?;
        fsconfig_create(&context).map_err(at(5))?;
        let flags = FsMountFlags::FSMOUNT_CLOEXEC;
        fsmount(&context, flags, MountAttrFlags::empty()).map(|_| 0).map_err(at(6))
    };
    match probe::in_child(NEW_USER | NEW_MOUNT, TIME, work) {
        Ok(Outcome::Done(_)) => Ok(()),
        Ok(Outcome::Failed(Failure { step, errno })) => {
            let call = STEPS.get(usize::try_from(step).unwrap_or(usize::MAX)).unwrap_or(&"clone");
            Err(format!("{call}: {}", io::Error::from_raw_os_error(errno)))
        }
        Ok(Outcome::TimedOut) => Err("it took too long".to_owned()),
        Ok(Outcome::Died) => Err("the try was killed".to_owned()),
        Err(error) => Err(format!("pipe: {error}")),
    }
}

/// The first two are those of [`probe::in_child`].
const STEPS: [&str; 7] =
    ["clone", "uid_map", "chdir", "fsopen", "fsconfig", "fsconfig(CREATE)", "fsmount"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_leaves_nothing_and_says_what_failed() {
        let top = tempfile::tempdir().unwrap();
        let tried = writable_root(top.path());
        assert!(tried.is_ok(), "{tried:?}");
        assert_eq!(std::fs::read_dir(top.path()).unwrap().count(), 0);
        // There is no place for layers on a procfs.
        let refused = writable_root(Path::new("/proc")).unwrap_err();
        assert!(refused.starts_with("mkdir: "), "{refused}");
    }
}
