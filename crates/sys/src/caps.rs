//! Capabilities.

use std::io;

/// Numbers of capabilities(7).
pub const CHOWN: u32 = 0;
pub const DAC_OVERRIDE: u32 = 1;
pub const FOWNER: u32 = 3;
pub const FSETID: u32 = 4;
pub const KILL: u32 = 5;
pub const SETGID: u32 = 6;
pub const SETUID: u32 = 7;
pub const SETPCAP: u32 = 8;
pub const SYS_PTRACE: u32 = 19;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Leaves just the capabilities of `keep` (bit n is capability n) in the bounding set,
/// for the calling process and all its children: no execve(2) gives any other again.
///
/// Source: capabilities(7), prctl(2) `PR_CAPBSET_DROP`.
///
/// # Errors
///
/// `EPERM` without `CAP_SETPCAP`, if there is one to drop; whatever a filter around us says.
pub fn keep_in_bounding_set(keep: u64) -> io::Result<()> {
    for capability in 0..64 {
        // SAFETY: prctl with integers only.
        match unsafe { libc::prctl(libc::PR_CAPBSET_READ, capability, 0, 0, 0) } {
            // The first number that the kernel does not know ends the list.
            ..0 => {
                let error = io::Error::last_os_error();
                let is_end = error.raw_os_error() == Some(libc::EINVAL);
                return if is_end { Ok(()) } else { Err(error) };
            }
            // To drop it once more would cost as much as the first time.
            0 => continue,
            _ if keep & (1 << capability) != 0 => continue,
            _ => {}
        }
        // SAFETY: prctl with integers only.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Keeps just the capabilities in `keep` (bit n is capability n), effective and
/// permitted; nothing is inheritable or ambient.
///
/// Source: capset(2).
///
/// # Errors
///
/// `EPERM` for a capability that is not permitted now.
pub fn keep_only(keep: u64) -> io::Result<()> {
    keep_permitted(keep, keep)
}

/// Keeps just the capabilities in `permitted`, and has those in `effective` of them
/// count from now on; nothing is inheritable or ambient.
///
/// Source: capset(2).
///
/// # Errors
///
/// `EPERM` for a capability that is not permitted now, or to be effective only.
pub fn keep_permitted(permitted: u64, effective: u64) -> io::Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    let mut header = Header { version: VERSION_3, pid: 0 };
    let halves = |set: u64| [(set & 0xffff_ffff) as u32, (set >> 32) as u32];
    let ([low, high], [low_now, high_now]) = (halves(permitted), halves(effective));
    let data = [(low, low_now), (high, high_now)].map(|(permitted, effective)| Data {
        effective,
        permitted,
        inheritable: 0,
    });
    // SAFETY: header and two data words are what version 3 asks for.
    let result =
        unsafe { libc::syscall(libc::SYS_capset, std::ptr::from_mut(&mut header), data.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
