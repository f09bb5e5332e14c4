//! The system calls that the workload may not make, each with its reason.
//!
//! What is not listed and not newer than [`NEWEST`] is allowed. The list follows
//! three rules: a call that only a holder of capabilities can use is refused
//! here too, so that a kernel fault behind its permission check stays out of
//! reach; a call that reaches other processes, other namespaces or the kernel's
//! programmable parts is refused; a call that programs merely probe for answers
//! "no such call", so that they fall back as on an older kernel.
//!
//! Beside these, [`Why::SetId`]: what is made in the sandbox may stay on the host.

use super::filter::{Answer, Rule};

/// The newest call known to this table: `listns` of Linux 6.19, in the number
/// space that all architectures share since 424.
pub(super) const NEWEST: u32 = 470;

pub(super) const ENOSYS: i32 = 38;
const EPERM: i32 = 1;
const EAFNOSUPPORT: i32 = 97;

/// Why a call is refused; also the stable name of the rule in a denial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Mounts and roots: the view is fixed before the workload starts.
    Mounts,
    /// New or foreign namespaces.
    Namespaces,
    /// Memory and descriptors of other processes.
    OtherProcesses,
    /// The kernel's programmable or tracing parts.
    KernelPrograms,
    /// Keys of the host's keyrings.
    Keyrings,
    /// Machine-wide state: time, names, modules, swap, reboot.
    Machine,
    /// Limits of the sandbox's own processes.
    Supervisor,
    /// Input injected into a terminal.
    Terminal,
    /// Socket families beyond unix, IPv4, IPv6 and route netlink.
    SocketFamilies,
    /// Asynchronous calls that no filter sees.
    AsyncCalls,
    /// Files by handle, past every path rule.
    FileHandles,
    /// Superseded forms, so that callers use the one that is judged.
    Superseded,
    /// Programs that take their owner's rights.
    SetId,
    /// Domains of a program's own, where they would not hold.
    Domains,
}

impl Why {
    /// The rule's stable name.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Mounts => "kernel.mounts",
            Self::Namespaces => "kernel.namespaces",
            Self::OtherProcesses => "kernel.ptrace",
            Self::KernelPrograms => "kernel.programs",
            Self::Keyrings => "kernel.keyrings",
            Self::Machine => "kernel.machine",
            Self::Supervisor => "kernel.supervisor",
            Self::Terminal => "kernel.terminal",
            Self::SocketFamilies => "kernel.sockets",
            Self::AsyncCalls => "kernel.io_uring",
            Self::FileHandles => "kernel.file-handles",
            Self::Superseded => "kernel.superseded",
            Self::SetId => "kernel.set-id",
            Self::Domains => "kernel.domains",
        }
    }
}

/// One line of the table.
#[derive(Debug, Clone, Copy)]
pub struct Refused {
    pub number: u32,
    pub name: &'static str,
    pub why: Why,
    pub(super) rule: Rule,
}

impl Refused {
    /// The errno that every such call fails with; `None` where its arguments decide.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self.rule {
            Rule::Give(Answer::Refuse(errno) | Answer::Absent(errno)) => Some(errno),
            Rule::Give(Answer::Allow | Answer::Ask | Answer::Kill)
            | Rule::AnyBit { .. }
            | Rule::OneOf { .. } => None,
        }
    }
}

const ALLOW: Rule = Rule::Give(Answer::Allow);
const REFUSE: Rule = Rule::Give(Answer::Refuse(EPERM));
const REFUSE_FAMILY: Rule = Rule::Give(Answer::Refuse(EAFNOSUPPORT));
const REFUSE_QUIETLY: Rule = Rule::Give(Answer::Absent(EPERM));
const ABSENT: Rule = Rule::Give(Answer::Absent(ENOSYS));

/// clone(2): without any of the `CLONE_NEW…` flags.
const CLONE: Rule = Rule::AnyBit { argument: 0, bits: 0x7e02_0000, then: &REFUSE, or: &ALLOW };

/// ioctl(2): no typing into a terminal (`TIOCSTI`, `TIOCLINUX`).
const IOCTL: Rule = Rule::OneOf {
    argument: 1,
    mask: u32::MAX,
    values: &[0x5412, 0x541c],
    then: &REFUSE,
    or: &IOCTL_BTRFS,
};
/// btrfs: subvolume and snapshot calls create populated directories under any
/// name; its type byte is shared by the clone and dedupe calls of all file
/// systems (`FICLONE`, `FICLONERANGE`, `FIDEDUPERANGE`), which stay.
const IOCTL_BTRFS: Rule =
    Rule::OneOf { argument: 1, mask: 0xff00, values: &[0x9400], then: &IOCTL_CLONE, or: &ALLOW };
const IOCTL_CLONE: Rule = Rule::OneOf {
    argument: 1,
    mask: 0xff,
    values: &[9, 13, 54],
    then: &ALLOW,
    or: &REFUSE_QUIETLY,
};

/// personality(2): the default, asking, and what debuggers and old programs
/// set (`ADDR_NO_RANDOMIZE`, `UNAME26`, `PER_LINUX32`).
const PERSONALITY: Rule = Rule::OneOf {
    argument: 0,
    mask: u32::MAX,
    values: &[0, 0xffff_ffff, 0x0004_0000, 0x0002_0000, 0x8],
    then: &ALLOW,
    or: &REFUSE_QUIETLY,
};

/// prlimit(2): not those of PID 1, nor of the helper beside it, whose id is 2: with
/// no descriptors left it could keep nothing hidden.
const PRLIMIT: Rule =
    Rule::OneOf { argument: 0, mask: u32::MAX, values: &[1, 2], then: &REFUSE_QUIETLY, or: &ALLOW };
/// The same where there is no helper, and 2 may be the workload itself.
pub(super) const PRLIMIT_ALONE: Rule =
    Rule::OneOf { argument: 0, mask: u32::MAX, values: &[1], then: &REFUSE_QUIETLY, or: &ALLOW };

/// socket(2): unix; IPv4 and IPv6 stream or datagram of the family's own
/// protocol (0, TCP, UDP); netlink of the route family.
const SOCKET: Rule = Rule::OneOf {
    argument: 0,
    mask: u32::MAX,
    values: &[AF_UNIX],
    then: &ALLOW,
    or: &SOCKET_INTERNET,
};
const SOCKET_INTERNET: Rule = Rule::OneOf {
    argument: 0,
    mask: u32::MAX,
    values: &[AF_INET, AF_INET6],
    then: &SOCKET_STREAM,
    or: &SOCKET_NETLINK,
};
const SOCKET_STREAM: Rule = Rule::OneOf {
    argument: 1,
    mask: SOCK_TYPE_MASK,
    values: &[SOCK_STREAM],
    then: &SOCKET_TCP,
    or: &SOCKET_DATAGRAM,
};
const SOCKET_TCP: Rule =
    Rule::OneOf { argument: 2, mask: u32::MAX, values: &[0, 6], then: &ALLOW, or: &REFUSE_FAMILY };
const SOCKET_DATAGRAM: Rule = Rule::OneOf {
    argument: 1,
    mask: SOCK_TYPE_MASK,
    values: &[SOCK_DGRAM],
    then: &SOCKET_UDP,
    or: &REFUSE_FAMILY,
};
const SOCKET_UDP: Rule =
    Rule::OneOf { argument: 2, mask: u32::MAX, values: &[0, 17], then: &ALLOW, or: &REFUSE_FAMILY };
const SOCKET_NETLINK: Rule = Rule::OneOf {
    argument: 0,
    mask: u32::MAX,
    values: &[AF_NETLINK],
    then: &SOCKET_ROUTE,
    or: &REFUSE_FAMILY,
};
const SOCKET_ROUTE: Rule =
    Rule::OneOf { argument: 2, mask: u32::MAX, values: &[0], then: &ALLOW, or: &REFUSE_FAMILY };
const SOCKETPAIR: Rule = Rule::OneOf {
    argument: 0,
    mask: u32::MAX,
    values: &[AF_UNIX],
    then: &ALLOW,
    or: &REFUSE_FAMILY,
};

/// chmod(2) and its relatives, by the argument that holds the mode: no program
/// that runs as its owner. The project is the host's own directory, and nobody
/// there expects one to appear; in root's own project it would be root's.
/// The set-group-ID bit stays, since directories have it for good reasons.
const CHMOD_1: Rule = Rule::AnyBit { argument: 1, bits: S_ISUID, then: &REFUSE, or: &ALLOW };
const CHMOD_2: Rule = Rule::AnyBit { argument: 2, bits: S_ISUID, then: &REFUSE, or: &ALLOW };

/// The calls that make a file with a mode: neither bit. open(2) has a mode only
/// if it creates; otherwise its register holds anything.
const CREATE_1: Rule = Rule::AnyBit { argument: 1, bits: SET_ID, then: &REFUSE, or: &ALLOW };
const CREATE_2: Rule = Rule::AnyBit { argument: 2, bits: SET_ID, then: &REFUSE, or: &ALLOW };
const CREATE_3: Rule = Rule::AnyBit { argument: 3, bits: SET_ID, then: &REFUSE, or: &ALLOW };
const OPEN: Rule = Rule::AnyBit { argument: 1, bits: CREATES, then: &CREATE_2, or: &ALLOW };
const OPENAT: Rule = Rule::AnyBit { argument: 2, bits: CREATES, then: &CREATE_3, or: &ALLOW };

const S_ISUID: u32 = libc::S_ISUID;
const SET_ID: u32 = libc::S_ISUID | libc::S_ISGID;
/// `O_TMPFILE` without the bit that it shares with `O_DIRECTORY`.
const CREATES: u32 = (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)).cast_unsigned();

const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const AF_NETLINK: u32 = 16;
const SOCK_TYPE_MASK: u32 = 0xf;
const SOCK_STREAM: u32 = 1;
const SOCK_DGRAM: u32 = 2;

/// Lines of the table: a reason, a rule, and the calls that they are for. A call that
/// libc does not know yet is given with its number.
macro_rules! calls {
    ($($why:ident $rule:ident: $($call:ident)+;)+) => {
        calls! { @lines $($($why $rule (stringify!($call)) (libc::$call);)+)+ }
    };
    (@lines $($why:ident $rule:ident ($name:expr) ($number:expr);)+) => {
        &[$(Refused {
            number: low_half($number),
            name: without_prefix($name),
            why: Why::$why,
            rule: $rule,
        }),+]
    };
}

/// Call numbers are small and positive.
const fn low_half(number: libc::c_long) -> u32 {
    let [a, b, c, d, ..] = number.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// `SYS_open` is open.
const fn without_prefix(name: &'static str) -> &'static str {
    name.split_at("SYS_".len()).1
}

/// The whole table, sorted by nothing in particular.
pub fn refused() -> impl Iterator<Item = &'static Refused> {
    EVERYWHERE.iter().chain(NEWER).chain(BY_ARCHITECTURE)
}

/// What is answered to a call that the filter hands to a supervisor because of
/// this table: its errno and its line. `None` for a call that is not refused.
#[must_use]
pub fn refusal(number: u32) -> Option<(i32, &'static Refused)> {
    let line = refused().find(|line| line.number == number)?;
    Some((errno_of(&line.rule)?, line))
}

/// As [`refusal`], but only if the table refuses the call with these arguments.
#[must_use]
pub fn refusal_of(number: u32, arguments: &[u64; 6]) -> Option<(i32, &'static Refused)> {
    let found = refusal(number)?;
    matches!(found.1.rule.answer(arguments), Answer::Refuse(_)).then_some(found)
}

/// The errno of a rule's told refusal; each rule has at most one.
fn errno_of(rule: &Rule) -> Option<i32> {
    match *rule {
        Rule::Give(Answer::Refuse(errno)) => Some(errno),
        Rule::Give(_) => None,
        Rule::AnyBit { then, or, .. } | Rule::OneOf { then, or, .. } => {
            errno_of(then).or_else(|| errno_of(or))
        }
    }
}

const EVERYWHERE: &[Refused] = calls! {
    Mounts REFUSE: SYS_mount SYS_umount2 SYS_pivot_root SYS_open_tree SYS_move_mount SYS_fsopen
        SYS_fsconfig SYS_fsmount SYS_fspick SYS_mount_setattr;
    // A browser's own sandbox takes the root away in its namespace.
    Namespaces REFUSE: SYS_unshare SYS_setns SYS_chroot;
    Namespaces CLONE: SYS_clone;
    // Its flags are behind a pointer; callers fall back to clone.
    Namespaces ABSENT: SYS_clone3;
    OtherProcesses REFUSE: SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev
        SYS_pidfd_getfd SYS_kcmp SYS_process_madvise;
    KernelPrograms REFUSE: SYS_bpf SYS_perf_event_open SYS_fanotify_init;
    KernelPrograms REFUSE_QUIETLY: SYS_userfaultfd;
    Keyrings REFUSE: SYS_add_key SYS_request_key SYS_keyctl;
    Machine REFUSE: SYS_settimeofday SYS_clock_settime SYS_sethostname SYS_setdomainname
        SYS_reboot SYS_kexec_load SYS_init_module SYS_finit_module SYS_delete_module SYS_swapon
        SYS_swapoff SYS_acct SYS_quotactl SYS_quotactl_fd SYS_syslog SYS_vhangup
        SYS_nfsservctl SYS_lookup_dcookie;
    Terminal IOCTL: SYS_ioctl;
    Machine PERSONALITY: SYS_personality;
    Supervisor PRLIMIT: SYS_prlimit64;
    SocketFamilies SOCKET: SYS_socket;
    SocketFamilies SOCKETPAIR: SYS_socketpair;
    AsyncCalls ABSENT: SYS_io_uring_setup SYS_io_uring_enter SYS_io_uring_register;
    FileHandles REFUSE: SYS_open_by_handle_at;
    // Flags behind a pointer again; callers fall back to openat.
    Superseded ABSENT: SYS_openat2;
    // Who asks for rules and gets them must be able to count on them.
    Domains ABSENT: SYS_landlock_create_ruleset SYS_landlock_add_rule SYS_landlock_restrict_self;
    SetId CHMOD_1: SYS_fchmod;
    SetId CHMOD_2: SYS_fchmodat;
    SetId CREATE_2: SYS_mknodat;
    SetId OPENAT: SYS_openat;
};

/// Those that libc does not know yet.
const NEWER: &[Refused] = calls! { @lines
    SetId CHMOD_2 ("SYS_fchmodat2") (452);
    Mounts REFUSE ("SYS_open_tree_attr") (467);
    Machine REFUSE ("SYS_lsm_set_self_attr") (460);
};

#[cfg(target_arch = "x86_64")]
const BY_ARCHITECTURE: &[Refused] = calls! {
    Machine REFUSE: SYS_iopl SYS_ioperm SYS_kexec_file_load
        SYS__sysctl SYS_uselib SYS_ustat SYS_sysfs;
    SetId CHMOD_1: SYS_chmod;
    SetId CREATE_1: SYS_creat SYS_mknod;
    SetId OPEN: SYS_open;
};

#[cfg(target_arch = "aarch64")]
const BY_ARCHITECTURE: &[Refused] = calls! {
    Machine REFUSE: SYS_kexec_file_load;
};
