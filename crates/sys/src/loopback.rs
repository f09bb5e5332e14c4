//! The loopback interface of a new network namespace.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;

/// `IFF_UP | IFF_RUNNING`, which netdevice(7) has as a 16-bit field.
const UP_AND_RUNNING: libc::c_short = 0x41;

/// Brings `lo` up, which gives it 127.0.0.1 and ::1.
///
/// Source: netdevice(7), `SIOCSIFFLAGS`.
///
/// # Errors
///
/// `EPERM` without `CAP_NET_ADMIN` over the network namespace.
pub fn up() -> io::Result<()> {
    up_raw().map_err(Into::into)
}

/// The same, touching neither the heap nor errno.
pub(crate) fn up_raw() -> Result<(), Errno> {
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: an all-zero ifreq is a valid value of this plain C struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = UP_AND_RUNNING;
    // SAFETY: SIOCSIFFLAGS reads one ifreq, which outlives the call.
    unsafe { rustix::ioctl::ioctl(&socket, SetFlags(&request)) }
}

/// `SIOCSIFFLAGS` as rustix wants an ioctl described.
struct SetFlags<'a>(&'a libc::ifreq);

// SAFETY: the opcode takes a pointer to an ifreq, reads it and returns nothing.
unsafe impl rustix::ioctl::Ioctl for SetFlags<'_> {
    type Output = ();
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> rustix::ioctl::Opcode {
        u32::try_from(libc::SIOCSIFFLAGS).unwrap_or(0)
    }

    fn as_ptr(&mut self) -> *mut rustix::ffi::c_void {
        std::ptr::from_ref(self.0).cast_mut().cast()
    }

    unsafe fn output_from_ptr(
        _: rustix::ioctl::IoctlOutput,
        _: *mut rustix::ffi::c_void,
    ) -> rustix::io::Result<()> {
        Ok(())
    }
}
