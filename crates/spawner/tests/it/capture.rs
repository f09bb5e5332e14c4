//! A sandbox whose network leads to the host, and what the host is handed.

use super::{Host, Sandbox, each};
use atoll_protocol::frame::{Kind, put_json};
use atoll_protocol::hello::Hello;
use atoll_protocol::ports;
use atoll_protocol::problem::Code;
use atoll_protocol::request::{Reply, Request};
use atoll_spawner::client::listeners;
use atoll_spawner::order::Order;
use atoll_sys::capture::{Listeners, PORT};
use atoll_testkit::guest::code;
use atoll_testkit::process::wait_until;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

fn captured(host: &Host, name: &str) -> (Order, Sandbox) {
    let mut order = host.order(name);
    order.capture = Some(Vec::new());
    let sandbox = host.spawn(&order);
    (order, sandbox)
}

fn ask(order: &Order, sandbox: &Sandbox) -> Listeners {
    listeners(order.socket.as_path(), sandbox.spawned.network.unwrap(), PATIENCE).unwrap()
}

/// Tells the next one that connects where it wanted to go.
fn tell_one(listeners: &Listeners) {
    let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(&listeners.tcp[0], PollFlags::IN)], Some(&patience));
    assert_eq!(ready, Ok(1), "nobody has connected");
    let listener = TcpListener::from(listeners.tcp[0].try_clone().unwrap());
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_nonblocking(false).unwrap();
    let meant = stream.local_addr().unwrap().to_string();
    stream.write_all(meant.as_bytes()).unwrap();
}

const CONNECT: &str = "python3 -c \"import socket
try:
    print(socket.create_connection(('93.184.216.34', 443), 10).recv(99).decode())
except OSError as error:
    print(error.strerror)\"";

#[test]
fn what_leaves_arrives_at_sockets_that_the_guest_hands_over_to_every_server() {
    each(|host| {
        let mut order = host.order("one");
        order.capture = Some(Vec::new());
        let other = super::spawner(host.user);
        let spawned = other.spawn(&order).unwrap();
        let socket = atoll_testkit::guest::Socket::new(order.socket.as_path());
        let sandbox = Sandbox { spawned, socket };
        let first = ask(&order, &sandbox);
        assert!(first.is_complete);
        std::thread::scope(|scope| {
            scope.spawn(|| tell_one(&first));
            assert_eq!(sandbox.sh(CONNECT), "93.184.216.34:443\n");
            if order.root.is_some() {
                scope.spawn(|| tell_one(&first));
                assert_eq!(sandbox.root_sh(CONNECT), "93.184.216.34:443\n");
            }
        });
        // Another server finds the guest, and another copy of them.
        drop((other, first));
        assert!(atoll_spawner::client::find(order.socket.as_path()).unwrap().is_some());
        let again = ask(&order, &sandbox);
        std::thread::scope(|scope| {
            scope.spawn(|| tell_one(&again));
            assert_eq!(sandbox.sh(CONNECT), "93.184.216.34:443\n");
        });
        // They are no servers of the sandbox's.
        assert_eq!(sandbox.socket.answer(&Request::Ports), Ok(Reply::Ports(Vec::new())));
        let wait = ports::Wait { port: PORT, timeout_ms: 1 };
        let waited = sandbox.socket.answer(&Request::WaitForPort(wait));
        assert_eq!(code(&waited), Some(Code::TimedOut));
        // Without a capture nothing leaves.
        let bare = host.spawn(&host.order("bare"));
        assert_eq!(bare.spawned.network, None);
        assert_eq!(bare.sh(CONNECT), "Network is unreachable\n");
        assert_eq!(code(&bare.socket.answer(&Request::Listeners)), Some(Code::NotFound));
    });
}

#[test]
fn sandboxes_have_networks_of_their_own() {
    each(|host| {
        let (one, sandbox) = captured(host, "one");
        let (other, another) = captured(host, "other");
        assert_ne!(sandbox.spawned.network, another.spawned.network);
        let network = another.spawned.network.unwrap();
        let refused = listeners(one.socket.as_path(), network, PATIENCE).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        let both = (ask(&one, &sandbox), ask(&other, &another));
        std::thread::scope(|scope| {
            scope.spawn(|| tell_one(&both.1));
            assert_eq!(another.sh(CONNECT), "93.184.216.34:443\n");
        });
        let none =
            poll(&mut [PollFd::new(&both.0.tcp[0], PollFlags::IN)], Some(&Timespec::default()));
        assert_eq!(none, Ok(0));
    });
}

/// Takes a descriptor of a process out of it (`pidfd_getfd`), or lists them; 0 is a child of
/// its own.
const REACH: &str = "python3 -c \"import ctypes, os, signal, sys
pid = int(sys.argv[1]) or os.fork() or signal.pause()
libc = ctypes.CDLL(None, use_errno=True)
pidfd = libc.syscall(434, pid, 0)
taken = [libc.syscall(438, pidfd, number, 0) for number in range(64)]
print('taken' if max(taken) >= 0 else os.strerror(ctypes.get_errno()))
try:
    os.listdir(f'/proc/{pid}/fd')
    print('listed')
except OSError as error:
    print(error.strerror)
sys.argv[1] == '0' and os.kill(pid, 9)\"";

#[test]
fn commands_do_not_reach_the_guests_sockets() {
    each(|host| {
        let (order, sandbox) = captured(host, "one");
        let own = "ls -l /proc/self/fd | grep -c -e socket: -e anon_inode:";
        let refused = "Operation not permitted\nPermission denied\n";
        assert_eq!(sandbox.sh(&format!("{REACH} 1")), refused);
        assert_eq!(sandbox.sh(own), "0\n");
        if order.root.is_some() {
            assert_eq!(sandbox.root_sh(&format!("{REACH} 1")), refused);
            assert_eq!(sandbox.root_sh(own), "0\n");
        }
    });
    // Outside, one's own processes are reached.
    let script = format!("{REACH} 0");
    let outside = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&outside.stdout), "taken\nlisted\n");
}

/// A guest that answers the next one with these descriptors.
fn answer_once(path: &std::path::Path, said: ports::Listeners, fds: Vec<OwnedFd>) {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
        let mut bytes = Vec::new();
        put_json(&mut bytes, Kind::Hello, &Hello::OURS).unwrap();
        stream.write_all(&bytes).unwrap();
        let mut bytes = Vec::new();
        put_json(&mut bytes, Kind::Reply, &Reply::Listeners(said)).unwrap();
        let fds: Vec<_> = fds.iter().map(OwnedFd::as_fd).collect();
        atoll_sys::scm::send_all(stream.as_fd(), &bytes, &fds).unwrap();
    });
}

#[test]
fn only_listeners_of_the_sandboxs_own_network_are_taken() {
    let dir = tempfile::tempdir().unwrap();
    let tcp = || TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = || OwnedFd::from(UdpSocket::bind("127.0.0.1:0").unwrap());
    let of_host = atoll_sys::socket::network(udp().as_fd()).unwrap();
    let said = |tcp, udp| ports::Listeners { tcp, udp, is_complete: true };
    let connected = || {
        let listener = tcp();
        OwnedFd::from(TcpStream::connect(listener.local_addr().unwrap()).unwrap())
    };
    let unix = || OwnedFd::from(UnixListener::bind(dir.path().join("other")).unwrap());
    let file = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
    let cases: Vec<(&str, ports::Listeners, Vec<OwnedFd>, u64)> = vec![
        ("fine", said(1, 1), vec![tcp().into(), udp()], of_host),
        ("elsewhere", said(1, 1), vec![tcp().into(), udp()], of_host + 1),
        ("less", said(2, 1), vec![tcp().into(), udp()], of_host),
        ("more", said(1, 1), vec![tcp().into(), udp(), udp()], of_host),
        ("nothing", said(0, 0), vec![], of_host),
        ("swapped", said(1, 1), vec![udp(), tcp().into()], of_host),
        ("connected", said(1, 1), vec![connected(), udp()], of_host),
        ("unix", said(1, 1), vec![unix(), udp()], of_host),
        ("file", said(1, 1), vec![tcp().into(), file()], of_host),
    ];
    for (name, said, fds, network) in cases {
        let path = dir.path().join(name);
        answer_once(&path, said, fds);
        let answer = listeners(&path, network, PATIENCE);
        if name == "fine" {
            let taken = answer.unwrap();
            assert_eq!((taken.tcp.len(), taken.udp.len(), taken.is_complete), (1, 1, true));
            let flags = rustix::fs::fcntl_getfl(&taken.tcp[0]).unwrap();
            assert!(flags.contains(rustix::fs::OFlags::NONBLOCK));
        } else {
            assert_eq!(answer.unwrap_err().kind(), io::ErrorKind::InvalidData, "{name}");
        }
    }
}

#[test]
fn networks_are_made_ahead_and_no_two_sandboxes_have_the_same() {
    each(|host| {
        let mut networks = Vec::new();
        let mut numbers = 0..;
        let base = host.order("one");
        let mut start = || {
            let mut order = base.clone();
            let socket = host.dir.path().join("one").join(format!("{}", numbers.next().unwrap()));
            order.socket = super::octets(&socket);
            order.capture = Some(Vec::new());
            let sandbox = host.spawn(&order);
            networks.push(sandbox.spawned.network.unwrap());
            (order, sandbox)
        };
        // Nobody had asked before the first one.
        assert!(!start().1.spawned.is_pooled);
        wait_until("a network that was made ahead", || start().1.spawned.is_pooled);
        let many: Vec<_> = std::iter::repeat_with(&mut start).take(6).collect();
        let count = networks.len();
        networks.sort_unstable();
        networks.dedup();
        assert_eq!(networks.len(), count);
        for (order, sandbox) in &many {
            let listeners = ask(order, sandbox);
            std::thread::scope(|scope| {
                scope.spawn(|| tell_one(&listeners));
                assert_eq!(sandbox.sh(CONNECT), "93.184.216.34:443\n");
            });
        }
        // Who is not to be captured gets none of them.
        let bare = host.spawn(&base);
        assert!(!bare.spawned.is_pooled);
        // A guest keeps its own four sockets, and nothing else of what its maker had.
        let descriptors = |sandbox: &Sandbox| match sandbox.socket.answer(&Request::Guest) {
            Ok(Reply::Guest(guest)) => guest.descriptors.used,
            answer => panic!("{answer:?}"),
        };
        // One who has connected before may not be forgotten yet.
        for (_, sandbox) in &many {
            wait_until("no more descriptors", || descriptors(sandbox) == descriptors(&bare) + 4);
        }
        assert_eq!(bare.sh(CONNECT), "Network is unreachable\n");
        assert_eq!(code(&bare.socket.answer(&Request::Listeners)), Some(Code::NotFound));
    });
}
