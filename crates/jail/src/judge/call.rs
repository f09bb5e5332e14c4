//! From registers to a call that can be judged.

use super::traps::{FCHMODAT2, FILE_SETATTR, REMOVEXATTRAT, SETXATTRAT};

/// A path argument that has not been read yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PathArgument {
    pub(super) directory: i32,
    pub(super) address: u64,
}

/// What an attribute call works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Path {
        path: PathArgument,
        follow: bool,
        /// An empty path means the directory descriptor itself (`AT_EMPTY_PATH`).
        or_descriptor: bool,
    },
    Descriptor(i32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Mode(u32),
    Owner { uid: u32, gid: u32 },
    SetAttribute { name: u64, value: u64, size: u64, flags: u32 },
    RemoveAttribute { name: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Open {
        path: PathArgument,
        flags: u32,
        mode: u32,
    },
    MakeDirectory {
        path: PathArgument,
        mode: u32,
    },
    MakeNode {
        path: PathArgument,
        mode: u32,
        device: u64,
    },
    MakeLink {
        target: u64,
        path: PathArgument,
    },
    HardLink {
        from: PathArgument,
        to: PathArgument,
        flags: u32,
    },
    Rename {
        from: PathArgument,
        to: PathArgument,
        flags: u32,
    },
    Unlink {
        path: PathArgument,
        flags: u32,
    },
    Truncate {
        path: PathArgument,
        length: u64,
    },
    Change {
        target: Target,
        change: Change,
    },
    Bind {
        socket: i32,
        address: u64,
        length: u32,
    },
    Umask {
        mask: u32,
    },
    /// A newer form of something above; callers know the older one.
    TooNew,
}

const HERE: i32 = libc::AT_FDCWD;

/// The kernel takes `int`s from the low half of a register.
#[expect(clippy::cast_possible_truncation, reason = "the register's low half is the argument")]
const fn low(register: u64) -> u32 {
    register as u32
}

const fn path(directory: u64, address: u64) -> PathArgument {
    PathArgument { directory: low(directory).cast_signed(), address }
}

const fn here(address: u64) -> PathArgument {
    PathArgument { directory: HERE, address }
}

const fn has(flags: u64, flag: i32) -> bool {
    low(flags) & flag.cast_unsigned() != 0
}

const fn at(path: PathArgument, follow: bool) -> Target {
    Target::Path { path, follow, or_descriptor: false }
}

/// Gives the call, or `None` for a number that is not in the table of traps.
pub(super) fn decode(number: i64, a: &[u64; 6]) -> Option<Call> {
    modern(number, a).or_else(|| attributes(number, a)).or_else(|| classic(number, a))
}

fn modern(number: i64, a: &[u64; 6]) -> Option<Call> {
    Some(match number {
        libc::SYS_openat => {
            Call::Open { path: path(a[0], a[1]), flags: low(a[2]), mode: low(a[3]) }
        }
        libc::SYS_mkdirat => Call::MakeDirectory { path: path(a[0], a[1]), mode: low(a[2]) },
        libc::SYS_mknodat => {
            Call::MakeNode { path: path(a[0], a[1]), mode: low(a[2]), device: u64::from(low(a[3])) }
        }
        libc::SYS_symlinkat => Call::MakeLink { target: a[0], path: path(a[1], a[2]) },
        libc::SYS_linkat => {
            Call::HardLink { from: path(a[0], a[1]), to: path(a[2], a[3]), flags: low(a[4]) }
        }
        libc::SYS_renameat => {
            Call::Rename { from: path(a[0], a[1]), to: path(a[2], a[3]), flags: 0 }
        }
        libc::SYS_renameat2 => {
            Call::Rename { from: path(a[0], a[1]), to: path(a[2], a[3]), flags: low(a[4]) }
        }
        libc::SYS_unlinkat => Call::Unlink { path: path(a[0], a[1]), flags: low(a[2]) },
        libc::SYS_truncate => Call::Truncate { path: here(a[0]), length: a[1] },
        libc::SYS_bind => {
            Call::Bind { socket: low(a[0]).cast_signed(), address: a[1], length: low(a[2]) }
        }
        libc::SYS_umask => Call::Umask { mask: low(a[0]) & 0o777 },
        SETXATTRAT | REMOVEXATTRAT | FILE_SETATTR => Call::TooNew,
        _ => return None,
    })
}

fn attributes(number: i64, a: &[u64; 6]) -> Option<Call> {
    let descriptor = Target::Descriptor(low(a[0]).cast_signed());
    let set = Change::SetAttribute { name: a[1], value: a[2], size: a[3], flags: low(a[4]) };
    let remove = Change::RemoveAttribute { name: a[1] };
    let flagged = |flags: u64| Target::Path {
        path: path(a[0], a[1]),
        follow: !has(flags, libc::AT_SYMLINK_NOFOLLOW),
        or_descriptor: has(flags, libc::AT_EMPTY_PATH),
    };
    let (target, change) = match number {
        libc::SYS_fchmod => (descriptor, Change::Mode(low(a[1]))),
        libc::SYS_fchmodat => (at(path(a[0], a[1]), true), Change::Mode(low(a[2]))),
        FCHMODAT2 => (flagged(a[3]), Change::Mode(low(a[2]))),
        libc::SYS_fchown => (descriptor, Change::Owner { uid: low(a[1]), gid: low(a[2]) }),
        libc::SYS_fchownat => (flagged(a[4]), Change::Owner { uid: low(a[2]), gid: low(a[3]) }),
        libc::SYS_setxattr => (at(here(a[0]), true), set),
        libc::SYS_lsetxattr => (at(here(a[0]), false), set),
        libc::SYS_fsetxattr => (descriptor, set),
        libc::SYS_removexattr => (at(here(a[0]), true), remove),
        libc::SYS_lremovexattr => (at(here(a[0]), false), remove),
        libc::SYS_fremovexattr => (descriptor, remove),
        _ => return None,
    };
    Some(Call::Change { target, change })
}

/// The calls without a directory argument, which newer architectures dropped.
#[cfg(target_arch = "x86_64")]
fn classic(number: i64, a: &[u64; 6]) -> Option<Call> {
    const CREAT: u32 = (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC).cast_unsigned();
    let first = here(a[0]);
    let change = |follow, change| Call::Change { target: at(first, follow), change };
    Some(match number {
        libc::SYS_open => Call::Open { path: first, flags: low(a[1]), mode: low(a[2]) },
        libc::SYS_creat => Call::Open { path: first, flags: CREAT, mode: low(a[1]) },
        libc::SYS_mkdir => Call::MakeDirectory { path: first, mode: low(a[1]) },
        libc::SYS_mknod => {
            Call::MakeNode { path: first, mode: low(a[1]), device: u64::from(low(a[2])) }
        }
        libc::SYS_symlink => Call::MakeLink { target: a[0], path: here(a[1]) },
        libc::SYS_link => Call::HardLink { from: first, to: here(a[1]), flags: 0 },
        libc::SYS_rename => Call::Rename { from: first, to: here(a[1]), flags: 0 },
        libc::SYS_unlink => Call::Unlink { path: first, flags: 0 },
        libc::SYS_rmdir => Call::Unlink { path: first, flags: libc::AT_REMOVEDIR.cast_unsigned() },
        libc::SYS_chmod => change(true, Change::Mode(low(a[1]))),
        libc::SYS_chown => change(true, Change::Owner { uid: low(a[1]), gid: low(a[2]) }),
        libc::SYS_lchown => change(false, Change::Owner { uid: low(a[1]), gid: low(a[2]) }),
        _ => return None,
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn classic(_number: i64, _arguments: &[u64; 6]) -> Option<Call> {
    None
}

#[cfg(test)]
mod tests {
    use super::super::traps::TRAPS;
    use super::*;

    #[test]
    fn every_trap_decodes_and_others_do_not() {
        for trap in TRAPS {
            assert!(decode(trap.number, &[0; 6]).is_some(), "{}", trap.number);
        }
        assert_eq!(decode(libc::SYS_read, &[0; 6]), None);
        assert_eq!(decode(libc::SYS_openat2, &[0; 6]), None);
    }

    #[test]
    fn the_high_half_of_an_int_is_dropped() {
        let args = [0xdead_beef_ffff_ff9c, 8, 0x1_0000_0041, 0o644, 0, 0];
        let expected = Call::Open {
            path: PathArgument { directory: libc::AT_FDCWD, address: 8 },
            flags: 0x41,
            mode: 0o644,
        };
        assert_eq!(decode(libc::SYS_openat, &args), Some(expected));
    }

    #[test]
    fn flags_of_attribute_calls() {
        let flags = u64::from((libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH).cast_unsigned());
        let Some(Call::Change { target, change }) = decode(FCHMODAT2, &[3, 8, 0o755, flags, 0, 0])
        else {
            panic!("not a change")
        };
        let path = PathArgument { directory: 3, address: 8 };
        assert_eq!(target, Target::Path { path, follow: false, or_descriptor: true });
        assert_eq!(change, Change::Mode(0o755));
    }
}
