//! Which calls are answered by the judge.

use libc::c_long;

/// When a trapped call is handed to the judge; otherwise the kernel runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    Always,
    /// The low half of argument `argument` shares a bit with `mask`. Both
    /// arguments that are tested are `int`s, so the kernel drops the high half.
    AnyBit {
        argument: u8,
        mask: u32,
    },
}

/// One row of the table: a call that the filter answers with `SECCOMP_RET_USER_NOTIF`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trap {
    /// The call's number in the native table.
    pub number: c_long,
    pub condition: Condition,
}

impl Trap {
    /// The row as strict mode needs it: every open comes to the judge, reads too.
    #[must_use]
    pub const fn strict(self) -> Self {
        Self { number: self.number, condition: Condition::Always }
    }
}

/// An open that can create a name or change a file.
const WRITING: u32 =
    (libc::O_CREAT | libc::O_TRUNC | libc::O_WRONLY | libc::O_RDWR).cast_unsigned();

/// These numbers are the same on every architecture (they came after the tables
/// were unified), and not all of them are in libc yet.
pub(super) const FCHMODAT2: c_long = 452;
pub(super) const SETXATTRAT: c_long = 463;
pub(super) const REMOVEXATTRAT: c_long = 466;
pub(super) const FILE_SETATTR: c_long = 469;

const fn always(number: c_long) -> Trap {
    Trap { number, condition: Condition::Always }
}

const fn writing(number: c_long, argument: u8) -> Trap {
    Trap { number, condition: Condition::AnyBit { argument, mask: WRITING } }
}

/// Every call by which a name appears, vanishes or moves, by which an existing
/// file can be changed, or by which it becomes executable.
///
/// - Opens only if they write or create: reads stay as fast as they are.
/// - `unlink`, `rmdir`, `truncate` and both ends of `link` and `rename`: a judge
///   of creations alone is passed by deleting first or linking away.
/// - Mode, owner and attributes, also by descriptor: a descriptor for reading is
///   enough to make a planted hook executable.
/// - `bind`: a unix socket with a path is a new file. Whether it is one cannot be
///   seen in the registers, so those of other families come along.
/// - `umask`: performed calls need the caller's; while nobody changes it, it is
///   the one from the start and need not be read from `/proc` each time.
/// - `setxattrat`, `removexattrat`, `file_setattr`: answered with `ENOSYS`, and
///   callers fall back to the older calls.
///
/// Not here, because the filter itself answers them: `openat2` (its flags lie in
/// memory) and `io_uring_*` with `ENOSYS`; other architectures; the ioctls that
/// make subvolumes.
pub const TRAPS: &[Trap] = &[
    #[cfg(target_arch = "x86_64")]
    writing(libc::SYS_open, 1),
    writing(libc::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")]
    always(libc::SYS_creat),
    #[cfg(target_arch = "x86_64")]
    always(libc::SYS_mkdir),
    always(libc::SYS_mkdirat),
    #[cfg(target_arch = "x86_64")]
    always(libc::SYS_mknod),
    always(libc::SYS_mknodat),
    #[cfg(target_arch = "x86_64")]
    always(libc::SYS_symlink),
    always(libc::SYS_symlinkat),
    #[cfg(target_arch = "x86_64")]
    always(libc::SYS_link),
    always(libc::SYS_linkat),
    #[cfg(target_arch = "x86_64")]
    always(libc::SYS_rename),
    always(libc::SYS_renameat),
    always(libc::SYS_renameat2),
    #[cfg(target_arch = "x86_64")]
    always(libc::SYS_unlink),
    always(libc::SYS_unlinkat),
    #[cfg(target_arch = "x86_64")]
    always(libc::SYS_rmdir),
    always(libc::SYS_truncate),
    #[cfg(target_arch = "x86_64")]
    always(libc::SYS_chmod),
    always(libc::SYS_fchmod),
    always(libc::SYS_fchmodat),
    always(FCHMODAT2),
    #[cfg(target_arch = "x86_64")]
    always(libc::SYS_chown),
    #[cfg(target_arch = "x86_64")]
    always(libc::SYS_lchown),
    always(libc::SYS_fchown),
    always(libc::SYS_fchownat),
    always(libc::SYS_setxattr),
    always(libc::SYS_lsetxattr),
    always(libc::SYS_fsetxattr),
    always(libc::SYS_removexattr),
    always(libc::SYS_lremovexattr),
    always(libc::SYS_fremovexattr),
    always(SETXATTRAT),
    always(REMOVEXATTRAT),
    always(FILE_SETATTR),
    always(libc::SYS_bind),
    always(libc::SYS_umask),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_twice_and_only_opens_have_a_condition() {
        let numbers: std::collections::HashSet<_> = TRAPS.iter().map(|trap| trap.number).collect();
        assert_eq!(numbers.len(), TRAPS.len());
        let conditional = TRAPS.iter().filter(|trap| trap.condition != Condition::Always);
        let expected = if cfg!(target_arch = "x86_64") { 2 } else { 1 };
        assert_eq!(conditional.clone().count(), expected);
        assert!(conditional.map(|trap| trap.strict()).all(|t| t.condition == Condition::Always));
    }

    #[test]
    fn the_mask_tells_writing_from_reading() {
        for flags in [libc::O_WRONLY, libc::O_RDWR, libc::O_CREAT, libc::O_TRUNC] {
            assert_ne!(flags.cast_unsigned() & WRITING, 0);
        }
        let reading = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_DIRECTORY | libc::O_PATH;
        assert_eq!(reading.cast_unsigned() & WRITING, 0);
    }
}
