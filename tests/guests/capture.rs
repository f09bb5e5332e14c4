//! The first process of a machine with Debian's kernel, whose netfilter is in modules:
//! captures a network without them, with some, and with all. `archive MODULE...` writes the
//! machine's root file system: this program and the modules, in their order; the first
//! three are nf_tables and what that needs.

#[path = "archive.rs"]
mod archive;

use archive::archive;
use atoll_sys::capture::{Capture, Listeners, Ports};
use atoll_sys::netns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, init_module, reboot};
use std::error::Error;
use std::fs;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

type Check = Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let done = match arguments.first().map(String::as_str) {
        Some("archive") => archive(&arguments[1..]),
        _ if std::process::id() == 1 => machine(),
        _ => Err("usage: guest_capture archive, or as the first process of a machine".into()),
    };
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes to the console; there is nobody to tell when that fails.
fn say(line: &str) {
    writeln!(io::stdout(), "{line}").ok();
}

fn expect(condition: bool, what: impl std::fmt::Debug) -> Check {
    if condition { Ok(()) } else { Err(format!("{what:?}").into()) }
}

fn machine() -> Check {
    fs::create_dir_all("/proc")?;
    mount("proc", "/proc", "proc", MountFlags::empty(), None)?;
    let has_ipv6 = !fs::read_to_string("/proc/cmdline")?.contains("ipv6.disable");
    let checks: [(&str, Range<usize>, bool); 3] = [
        ("without netfilter, named ports have listeners", 0..0, false),
        ("without its expressions, too", 0..3, false),
        ("with all of it, all TCP arrives", 3..usize::MAX, true),
    ];
    for (name, modules, is_complete) in checks {
        let checked = load(modules).and_then(|()| check(is_complete, has_ipv6));
        match checked {
            Ok(()) => say(&format!("PASS {name}, IPv6: {has_ipv6}")),
            Err(error) => say(&format!("FAIL {name}, IPv6: {has_ipv6}: {error}")),
        }
    }
    say("DONE");
    reboot(RebootCommand::PowerOff)?;
    Ok(())
}

fn load(numbers: Range<usize>) -> Check {
    for number in numbers {
        let Ok(module) = fs::read(format!("/{number}.ko")) else { break };
        init_module(&module, c"")?;
    }
    Ok(())
}

/// Moves into a network that is captured, and looks at what arrives where.
fn check(is_complete: bool, has_ipv6: bool) -> Check {
    let failed = |error: netns::NetError| format!("{}: {}", error.step, error.source);
    let mut network = netns::prepare(Capture::All(Ports::new(&[9418])))?;
    network.enter().map_err(failed)?;
    let listeners = network.listeners().map_err(failed)?.ok_or("no listeners")?;
    let families = 1 + usize::from(has_ipv6);
    // 53, 80, 443 and the one that is named, or all by one.
    let ports = if is_complete { 1 } else { 4 };
    let found = (listeners.is_complete, listeners.tcp.len(), listeners.udp.len());
    expect(found == (is_complete, ports * families, families), found)?;
    for to in ["8.8.8.8:9418", "[2001:db8::1]:9418"].into_iter().take(families) {
        arrives(to.parse()?, &listeners)?;
    }
    let other = TcpStream::connect("8.8.8.8:8443").map(|_| ());
    expect(other.is_ok() == is_complete, &other)?;
    let datagram = UdpSocket::bind("0.0.0.0:0")?;
    let refused = datagram.send_to(b"x", "8.8.8.8:443").map_err(|error| error.kind());
    expect(refused == Err(io::ErrorKind::PermissionDenied) || !is_complete, refused)?;
    let query = datagram.send_to(b"x", "9.9.9.9:53");
    expect(query.is_ok(), query)?;
    let mut buffer = [0; 4];
    let socket = UdpSocket::from(listeners.udp[0].try_clone()?);
    wait_for_any(&listeners.udp)?;
    let received = socket.recv_from(&mut buffer);
    expect(matches!(received, Ok((1, _))), received)
}

/// What was sent is there a moment later: a kernel thread may carry it. No listener waits.
fn wait_for_any(listeners: &[OwnedFd]) -> Check {
    let mut all: Vec<_> = listeners.iter().map(|one| PollFd::new(one, PollFlags::IN)).collect();
    let ready = poll(&mut all, Some(&Timespec { tv_sec: 30, tv_nsec: 0 }))?;
    expect(ready > 0, "nothing arrived")
}

/// A connection is accepted by one of them, which says where it was to go.
fn arrives(to: SocketAddr, listeners: &Listeners) -> Check {
    let _connected = TcpStream::connect(to)?;
    wait_for_any(&listeners.tcp)?;
    for listener in &listeners.tcp {
        if let Ok((accepted, _)) = TcpListener::from(listener.try_clone()?).accept() {
            let meant = accepted.local_addr()?;
            return expect(meant == to, meant);
        }
    }
    Err("nothing was accepted".into())
}
