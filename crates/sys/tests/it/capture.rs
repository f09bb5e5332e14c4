//! What programs see in a captured network, and what they cannot do to it.

use atoll_sys::capture::{Capture, Listeners, Ports};
use atoll_sys::netns;
use atoll_sys::seccomp::{Instruction, Listener};
use atoll_testkit::run::User;
use atoll_testkit::skip::is_installed;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, Signal, pidfd_open};
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

/// What a kernel does without: socket(2) with such arguments fails with this error.
#[derive(Clone, Copy)]
struct Lacks {
    family: i32,
    protocol: Option<i32>,
    errno: i32,
}

const NF_TABLES: Lacks = Lacks {
    family: libc::AF_NETLINK,
    protocol: Some(libc::NETLINK_NETFILTER),
    errno: libc::EPROTONOSUPPORT,
};

const IPV6: Lacks = Lacks { family: libc::AF_INET6, protocol: None, errno: libc::EAFNOSUPPORT };

impl Lacks {
    /// Has the calling process, and those that it makes, run as on such a kernel.
    fn apply(self) -> std::io::Result<()> {
        let (load, equal, answer) = (0x20, 0x15, 0x06);
        let step = |code, jf, k: i32| Instruction { code, jt: 0, jf, k: k.cast_unsigned() };
        let socket = i32::try_from(libc::SYS_socket).unwrap();
        let refuse = libc::SECCOMP_RET_ERRNO.cast_signed() | self.errno;
        let allow = step(answer, 0, libc::SECCOMP_RET_ALLOW.cast_signed());
        let mut filter = vec![step(load, 0, 0), step(equal, 3, socket)];
        filter.extend([step(load, 0, 16), step(equal, 1, self.family)]);
        filter.extend([step(answer, 0, refuse), allow]);
        if let Some(protocol) = self.protocol {
            filter[1].jf = 5;
            filter[3].jf = 3;
            filter.splice(4..4, [step(load, 0, 32), step(equal, 1, protocol)]);
        }
        rustix::thread::set_no_new_privs(true)?;
        atoll_sys::seccomp::install(&filter, Listener::None).map(drop)
    }
}

/// Starts a program in a network that is captured so.
fn start(user: User, capture: Capture, program: &str, arguments: &[&str]) -> Inside {
    start_lacking(None, user, capture, program, arguments)
}

/// The same on a kernel that lacks something.
fn start_lacking(
    lacks: Option<Lacks>,
    user: User,
    capture: Capture,
    program: &str,
    arguments: &[&str],
) -> Inside {
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
        lacks.map_or(Ok(()), Lacks::apply)?;
        let mut network = netns::prepare(capture)?;
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

/// The same one user namespace below, as root with all capabilities there, who is nobody
/// outside: what a sandbox's root is.
fn start_below(user: User, capture: Capture, command: &[&str]) -> Inside {
    let nobody = ["setpriv", "--reuid=71000", "--regid=71000", "--clear-groups"];
    let nobody: &[&str] = if user == User::Root { &nobody } else { &[] };
    let below = ["unshare", "--user", "--map-root-user", "--"];
    let all = [nobody, &below, command].concat();
    start(user, capture, all[0], &all[1..])
}

fn python_below(user: User, capture: Capture, script: &str) -> Inside {
    start_below(user, capture, &["python3", "-c", &format!("{PRELUDE}\n{script}")])
}

/// Answers two queries at a socket of port 53, in the host's own network: says who was
/// asked, from where the answer comes, too.
fn answer_two(socket: &OwnedFd, is_ipv6: bool) -> String {
    let script = "
import socket, sys
s = socket.socket(fileno=0)
s.setblocking(True)
s.settimeout(20)
for _ in range(2):
    query, ancillary, _, client = s.recvmsg(512, 128)
    [(level, kind, info)] = ancillary
    if sys.argv[1] == '6':
        asked, reply = socket.inet_ntop(socket.AF_INET6, info[:16]), info[:16] + bytes(4)
    else:
        asked, reply = socket.inet_ntoa(info[8:12]), bytes(4) + info[8:12] + bytes(4)
    print(query.decode(), asked, flush=True)
    s.sendmsg([b'answer'], [(level, kind, reply)], 0, client)
";
    let family = if is_ipv6 { "6" } else { "4" };
    let output = Command::new("python3")
        .args(["-c", script, family])
        .stdin(socket.try_clone().unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn queries_to_any_address_arrive_and_are_answered_from_there() {
    for user in User::all() {
        let script = "
for family, address in ((socket.AF_INET, '9.9.9.9'), (socket.AF_INET6, '2620:fe::9')):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(20)
        s.sendto(b'unconnected', (address, 53))
        print(*s.recvfrom(99)[1][:2])
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(20)
        s.connect((address, 53))
        s.send(b'connected')
        print(s.recv(99).decode())
";
        let inside = python_below(user, ALL(), script);
        for (index, address) in ["9.9.9.9", "2620:fe::9"].into_iter().enumerate() {
            let heard = answer_two(&inside.listeners().udp[index], index == 1);
            assert_eq!(heard, format!("unconnected {address}\nconnected {address}\n"));
        }
        assert_eq!(inside.output(), "9.9.9.9 53\nanswer\n2620:fe::9 53\nanswer\n");
    }
}

#[test]
fn what_is_neither_tcp_nor_dns_fails_at_once() {
    let script = "
def datagram(family, address, connects):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        if connects:
            s.connect(address)
            s.send(b'x')
        else:
            s.sendto(b'x', address)
def made(*arguments):
    socket.socket(*arguments).close()
for connects in (True, False):
    print('udp', tried(lambda: datagram(socket.AF_INET, ('8.8.8.8', 443), connects)))
    print('udp6', tried(lambda: datagram(socket.AF_INET6, ('2001:4860::8', 443), connects)))
    print('multicast', tried(lambda: datagram(socket.AF_INET, ('224.0.0.251', 5353), connects)))
    print('own', tried(lambda: datagram(socket.AF_INET, ('127.0.0.1', 443), connects)))
print('ping', tried(lambda: made(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)))
print('raw', tried(lambda: made(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)))
print('raw6', tried(lambda: made(socket.AF_INET6, socket.SOCK_RAW, 58)))
print('packet', tried(lambda: made(socket.AF_PACKET, socket.SOCK_RAW, 0)))
print('sctp', tried(lambda: made(socket.AF_INET, socket.SOCK_STREAM, 132)))
";
    for user in User::all() {
        let udp = "udp EPERM\nudp6 EPERM\nmulticast EPERM\nown ok\n";
        // A kernel without SCTP refuses it itself.
        let rest = "ping EACCES\nraw EPERM\nraw6 EPERM\npacket EPERM\nsctp ";
        let output = python_below(user, ALL(), script).output();
        let (found, sctp) = output.trim_end().rsplit_once("sctp ").unwrap();
        assert_eq!(format!("{found}sctp "), format!("{udp}{udp}{rest}"));
        assert!(["EPROTONOSUPPORT", "EPERM", "ok"].contains(&sctp), "{sctp}");
    }
    // Outside, root may make them.
    if User::all().contains(&User::Root) {
        let outside = python(User::Root, Capture::None, script).output();
        assert!(outside.contains("raw ok\nraw6 ok\npacket ok\n"), "{outside}");
    }
}

#[test]
fn servers_inside_work_beside_it() {
    let script = "
def served(family, at, to):
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(at)
        server.listen()
        with socket.create_connection(to, 5) as client:
            accepted, _ = server.accept()
            with accepted:
                accepted.sendall(b'own')
                return client.recv(9).decode()
four, six = socket.AF_INET, socket.AF_INET6
print(served(four, ('127.0.0.1', 8080), ('127.0.0.1', 8080)))
print(served(four, ('0.0.0.0', 8080), ('127.0.0.1', 8080)))
print(served(four, ('0.0.0.0', 80), ('198.18.0.2', 80)))
print(served(six, ('::1', 80), ('::1', 80)))
# What comes from elsewhere occupies its port, but for a server that does as most do.
elsewhere = socket.create_connection(('93.184.216.34', 3000))
print(served(four, ('0.0.0.0', 3000), ('127.0.0.1', 3000)))
# A server of our own on every address does not get what is for elsewhere.
everywhere = socket.create_server(('0.0.0.0', 8443))
away = socket.create_connection(('8.8.8.8', 8443))
print(away.recv(9).decode())
def taken(family, kind, address):
    with socket.socket(family, kind) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == six:
            s.setsockopt(socket.IPPROTO_IPV6, 78, 1) # IPV6_FREEBIND
        s.bind(address)
        if kind == socket.SOCK_STREAM:
            s.listen()
for address in ('0.0.0.0', '127.0.0.1', '8.8.8.8'):
    print(tried(lambda: taken(four, socket.SOCK_STREAM, (address, 15001))))
    print(tried(lambda: taken(four, socket.SOCK_DGRAM, (address, 53))))
for address in ('::', '::1', '2001:db8::1'):
    print(tried(lambda: taken(six, socket.SOCK_STREAM, (address, 15001))))
    print(tried(lambda: taken(six, socket.SOCK_DGRAM, (address, 53))))
socket.create_connection(('127.0.0.1', 15001))
";
    for user in User::all() {
        let inside = python_below(user, ALL(), script);
        let four = &inside.listeners().tcp[0];
        let (_elsewhere, meant) = accept(four);
        assert_eq!(meant, "93.184.216.34:3000".parse().unwrap());
        let (mut away, meant) = accept(four);
        assert_eq!(meant, "8.8.8.8:8443".parse().unwrap());
        away.write_all(b"captured").unwrap();
        // Who connects to the listener itself can be told.
        assert_eq!(accept(four).1, "127.0.0.1:15001".parse().unwrap());
        let expected = format!("{}captured\n{}", "own\n".repeat(5), "EADDRINUSE\n".repeat(12));
        assert_eq!(inside.output(), expected);
    }
}

#[test]
fn root_one_user_namespace_below_changes_nothing() {
    if !["ip", "ss", "nft"].into_iter().all(|tool| is_installed(tool, "capture-attacks")) {
        return;
    }
    let attacks = "
try() { name=$1; shift; if \"$@\" >/dev/null 2>&1; then echo $name done; else echo $name refused; fi; }
try down ip link set lo down
try up ip link set lo up
try address ip address add 192.0.2.1/32 dev lo
try flush ip route flush table local
try route ip route add local 192.0.2.0/24 dev lo
try veth ip link add atoll0 type veth peer name atoll1
try rules nft add table inet mine
try ruleset nft flush ruleset
try setting sh -c 'echo 1024 >/proc/sys/net/ipv4/ip_unprivileged_port_start'
test -z \"$(ss -HK state listening 2>/dev/null)\" && echo kill refused || echo kill done
grep -c . /proc/self/net/tcp
";
    let outcomes = |word: &str| {
        ["down", "up", "address", "flush", "route", "veth", "rules", "ruleset", "setting", "kill"]
            .map(|name| format!("{name} {word}\n"))
            .concat()
    };
    for user in User::all() {
        let connect = "python3 -c 'import socket; socket.create_connection((\"8.8.8.8\", 443), 9)'";
        let script = format!("grep CapEff /proc/self/status | cut -f2{attacks}{connect}\n");
        let inside = start_below(user, ALL(), &["sh", "-c", &script]);
        let (_, meant) = accept(&inside.listeners().tcp[0]);
        assert_eq!(meant, "8.8.8.8:443".parse().unwrap());
        let output = inside.output();
        let (capabilities, rest) = output.split_once('\n').unwrap();
        assert!(!capabilities.trim_matches(['0', '1', 'f']).contains(char::is_numeric));
        assert!(capabilities.ends_with("ffffffff"), "{capabilities}");
        // The heading of the list, and the listener.
        assert_eq!(rest, format!("{}2\n", outcomes("refused")));
        // In a network of its own, the same root can do all of that.
        let listen = "python3 -c 'import os, socket, time
s = socket.create_server((\"127.0.0.1\", 80))
os.fork() or time.sleep(600)' >/dev/null 2>&1";
        let script = format!("ip link set lo up; {listen}{attacks}exit 0");
        let own = ["--user", "--map-root-user", "--net", "--pid", "--fork", "--mount-proc"];
        let arguments = [&own[..], &["sh", "-c", &script]].concat();
        let own = start(user, Capture::None, "unshare", &arguments).output();
        assert!(own.starts_with(&outcomes("done")), "{own}");
    }
}

#[test]
fn the_ruleset_is_what_it_is_meant_to_be() {
    if !is_installed("nft", "capture-ruleset") {
        return;
    }
    if !User::all().contains(&User::Root) {
        return;
    }
    let local = "		ip daddr 127.0.0.0/8 accept
		ip daddr 198.18.0.2 accept
		ip6 daddr ::1 accept
		ip6 daddr fd00:a701::2 accept
";
    let reject = "		reject with icmpx admin-prohibited\n";
    let expected = format!(
        "table inet atoll {{
	chain capture {{
		type filter hook prerouting priority mangle; policy accept;
{local}		meta l4proto tcp tproxy to :15001 accept
	}}

	chain out {{
		type filter hook output priority filter; policy accept;
		oif != \"lo\" accept
{local}		meta l4proto tcp accept
		udp dport 53 accept
{reject}	}}

	chain inp {{
		type filter hook input priority filter; policy accept;
		iif \"lo\" accept
		meta l4proto tcp accept
		udp dport 53 accept
		meta l4proto ipv6-icmp accept
{reject}	}}
}}
"
    );
    assert_eq!(start(User::Root, ALL(), "nft", &["list", "ruleset"]).output(), expected);
    let bare = start(User::Root, Capture::None, "nft", &["list", "ruleset"]).output();
    assert_eq!(bare, "");
}

#[test]
fn without_nf_tables_named_ports_have_listeners_and_it_is_said() {
    let script = "
def heard(address, port):
    with socket.create_connection((address, port)) as stream:
        return stream.recv(9).decode()
print(heard('8.8.8.8', 443), heard('2001:db8::1', 53), heard('10.0.0.1', 9418))
print(tried(lambda: heard('8.8.8.8', 8443)), tried(lambda: heard('2001:db8::1', 8443)))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    s.sendto(b'query', ('9.9.9.9', 53))
";
    let script = format!("{PRELUDE}{script}");
    let ports = Ports::new(&[9418, 443]);
    // The kernel lacks it, or it is to be as if.
    let ways = [(Some(NF_TABLES), Capture::All(ports)), (None, Capture::Ports(ports))];
    for (user, (lacks, capture)) in
        User::all().into_iter().flat_map(|user| ways.map(|way| (user, way)))
    {
        let inside = start_lacking(lacks, user, capture, "python3", &["-c", &script]);
        let listeners = inside.listeners();
        assert!(!listeners.is_complete);
        let ports: Vec<_> = listeners
            .tcp
            .iter()
            .map(|one| SocketAddr::try_from(rustix::net::getsockname(one).unwrap()).unwrap())
            .collect();
        let expected: Vec<_> = [53, 80, 443, 9418]
            .into_iter()
            .flat_map(|port| {
                ["0.0.0.0", "::"].map(|any| SocketAddr::new(any.parse().unwrap(), port))
            })
            .collect();
        assert_eq!(ports, expected);
        for (listener, meant) in [(4, "8.8.8.8:443"), (1, "[2001:db8::1]:53"), (6, "10.0.0.1:9418")]
        {
            let (mut stream, found) = accept(&listeners.tcp[listener]);
            assert_eq!(found, meant.parse().unwrap());
            stream.write_all(b"heard").unwrap();
        }
        is_ready(&listeners.udp[0]);
        assert_eq!(inside.output(), "heard heard heard\nECONNREFUSED ECONNREFUSED\n");
    }
}

#[test]
fn without_ipv6_there_is_ipv4() {
    let script = "
print(socket.create_connection(('8.8.8.8', 443)).recv(9).decode())
print(tried(lambda: socket.create_connection(('2001:db8::1', 443))))
";
    let script = format!("{PRELUDE}{script}");
    for user in User::all() {
        let inside = start_lacking(Some(IPV6), user, ALL(), "python3", &["-c", &script]);
        let listeners = inside.listeners();
        assert!(listeners.is_complete);
        assert_eq!((listeners.tcp.len(), listeners.udp.len()), (1, 1));
        accept(&listeners.tcp[0]).0.write_all(b"heard").unwrap();
        assert_eq!(inside.output(), "heard\nEAFNOSUPPORT\n");
    }
}

#[test]
fn who_is_undecided_may_decide_later_or_never() {
    let made = |capture: Option<Capture>| {
        let mut network = netns::prepare_undecided().unwrap();
        if let Some(capture) = capture {
            network.decide(capture);
            // The first word holds.
            network.decide(Capture::None);
        }
        let listeners = network.listeners().unwrap();
        assert!(network.listeners().unwrap().is_none());
        listeners.map(|listeners| listeners.is_complete)
    };
    assert_eq!(made(None), None);
    assert_eq!(made(Some(Capture::None)), None);
    assert_eq!(made(Some(Capture::All(Ports::default()))), Some(true));
    assert_eq!(made(Some(Capture::Ports(Ports::default()))), Some(false));
    drop(netns::prepare_undecided().unwrap());
}

#[test]
fn who_ends_undecided_leaves_nobody() {
    for user in User::all() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new("true");
        command.current_dir("/");
        user.become_for(&mut command);
        let enter = move || {
            rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
            let mut network = netns::prepare_undecided()?;
            network.enter().map_err(|error| error.source)?;
            theirs.write_all(&std::process::id().to_ne_bytes())?;
            loop {
                rustix::event::pause();
            }
        };
        // SAFETY: as above.
        unsafe { command.pre_exec(enter) };
        // It never comes to its program.
        let spawning = std::thread::spawn(move || command.spawn().map(|mut child| child.wait()));
        let mut pid = [0; 4];
        ours.read_exact(&mut pid).unwrap();
        let pid = i32::from_ne_bytes(pid);
        let list = format!("/proc/{pid}/task/{pid}/children");
        let child: i32 = std::fs::read_to_string(list).unwrap().trim().parse().unwrap();
        let open = |pid| pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap();
        let (ended, undecided) = (open(pid), open(child));
        rustix::process::pidfd_send_signal(&ended, Signal::KILL).unwrap();
        is_ready(&undecided);
        spawning.join().unwrap().ok();
    }
}
