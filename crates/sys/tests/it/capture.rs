//! What programs see in a captured network, and what they cannot do to it.

use atoll_sys::capture::{Capture, Listeners, Ports};
use atoll_testkit::run::User;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::DumpableBehavior;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

/// A program in a network of its own, and where what leaves that arrives.
struct Inside {
    child: Child,
    listeners: Option<Listeners>,
}

/// Starts a program in a network that is captured so.
fn start(user: User, capture: Capture, program: &str, arguments: &[&str]) -> Inside {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
        .current_dir("/")
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
    user.become_for(&mut command);
    let enter = move || {
        // Who has become another user without a program of its own is shown to nobody.
        rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        let mut network = atoll_sys::netns::prepare(capture)?;
        network.enter().map_err(|error| error.source)?;
        match network.listeners().map_err(|error| error.source)? {
            Some(listeners) => listeners.send(theirs.as_fd()),
            None => Ok(()),
        }
    };
    // SAFETY: the new process has one thread, and the C library's heap can be used in a
    // copy; nothing that another thread may hold is touched.
    unsafe { command.pre_exec(enter) };
    let child = command.spawn().unwrap();
    let is_captured = capture != Capture::None;
    let listeners = is_captured.then(|| Listeners::receive(ours.as_fd()).unwrap());
    Inside { child, listeners }
}

/// The same with a script of Python.
fn python(user: User, capture: Capture, script: &str) -> Inside {
    start(user, capture, "python3", &["-c", &format!("{PRELUDE}\n{script}")])
}

const PRELUDE: &str = "
import errno, os, socket, struct, sys, time
def tried(act):
    begun = time.monotonic()
    try:
        return act() or 'ok'
    except OSError as error:
        assert time.monotonic() - begun < 1, 'it took its time'
        return errno.errorcode[error.errno]
";

impl Inside {
    fn listeners(&self) -> &Listeners {
        self.listeners.as_ref().unwrap()
    }

    /// What it prints until its end.
    fn output(self) -> String {
        let output = self.child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    }
}

fn is_ready(socket: &OwnedFd) {
    let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&patience)).unwrap();
    assert_eq!(ready, 1, "nothing has arrived");
}

/// The next connection, and for which address it was.
fn accept(listener: &OwnedFd) -> (TcpStream, SocketAddr) {
    is_ready(listener);
    let listener = TcpListener::from(listener.try_clone().unwrap());
    let (stream, _) = listener.accept().unwrap();
    stream.set_nonblocking(false).unwrap();
    let meant = stream.local_addr().unwrap();
    (stream, meant)
}

const ALL: fn() -> Capture = || Capture::All(Ports::default());

#[test]
fn tcp_to_any_address_and_port_arrives_and_says_where_it_was_to_go() {
    for user in User::all() {
        let to = [
            ("8.8.8.8", 443, 0),
            ("10.1.2.3", 1, 0),
            ("192.168.0.1", 65_535, 0),
            ("198.18.0.1", 15_001, 0),
            ("2001:4860:4860::8888", 443, 1),
            ("fd00:a701::1", 53, 1),
            ("64:ff9b::808:808", 80, 1),
        ];
        let script = "
for address, port in TO:
    with socket.create_connection((address, port)) as stream:
        stream.sendall(b'question')
        print(address, stream.getpeername()[1], stream.recv(99).decode(), stream.getsockname()[0])
";
        let list: Vec<_> = to.iter().map(|(address, port, _)| (address, port)).collect();
        let inside = python(user, ALL(), &format!("TO = {list:?}\n{script}"));
        assert!(inside.listeners().is_complete);
        assert_eq!((inside.listeners().tcp.len(), inside.listeners().udp.len()), (2, 2));
        let mut expected = String::new();
        for (address, port, family) in to {
            let (mut stream, meant) = accept(&inside.listeners().tcp[family]);
            assert_eq!(meant, SocketAddr::new(address.parse().unwrap(), port));
            stream.write_all(b"answer").unwrap();
            let mut question = [0; 8];
            stream.read_exact(&mut question).unwrap();
            assert_eq!(&question, b"question");
            let own = if family == 0 { "198.18.0.2" } else { "fd00:a701::2" };
            expected += &format!("{address} {port} answer {own}\n");
        }
        assert_eq!(inside.output(), expected);
        // Without a capture nothing is reached.
        let bare = "print(tried(lambda: socket.create_connection(('8.8.8.8', 443))))";
        assert_eq!(python(user, Capture::None, bare).output(), "ENETUNREACH\n");
    }
}
