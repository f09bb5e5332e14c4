//! Sockets: what meets inside, what does not get out, and how fast that is said.

use super::each;
use super::probe::{inside, outside, place, refusals};
use atoll_testkit::run::{Project, Ran};
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Child, Stdio};

/// A python program, in and out of a sandbox.
fn python(program: &str) -> String {
    assert!(!program.contains('\''));
    format!("python3 -c '{program}'")
}

#[test]
fn servers_of_every_kind_work_inside() {
    let script = python(
        r#"
import socket, os
for family, address in [(socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_INET6, ("::1", 0)),
        (socket.AF_INET, ("0.0.0.0", 0)), (socket.AF_UNIX, "/tmp/s"), (socket.AF_UNIX, "\0abstract"),
        (socket.AF_UNIX, "in-project")]:
    server = socket.socket(family)
    server.bind(address)
    server.listen()
    client = socket.socket(family)
    client.connect(server.getsockname())
    peer, _ = server.accept()
    client.send(b"hello")
    print(peer.recv(5).decode())
a = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); a.bind(("127.0.0.1", 0))
b = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); b.sendto(b"udp", a.getsockname())
print(a.recv(9).decode())
x, y = socket.socketpair(); x.send(b"pair"); print(y.recv(9).decode())
os.unlink("in-project")
print(len(socket.if_nameindex()), socket.if_nameindex()[0][1])"#,
    );
    each(|project| {
        for mode in ["live", "review"] {
            let run = project.run_sh(&["--workspace", mode], &script);
            let expected = format!("{}udp\npair\n1 lo\n", "hello\n".repeat(6));
            assert_eq!(run.stdout(), expected, "{}", run.text());
            assert!(!run.stderr().contains("refused"), "{}", run.text());
        }
    });
}

/// A server inside that prints its port, then lives until its stdin is closed.
fn serve_inside(project: &Project) -> (Child, u16) {
    let program = r#"
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
sys.stdin.read()"#;
    let mut command = project.atoll(&["run", "--", "python3", "-c", program]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim().parse().unwrap())
}

#[test]
fn loopback_is_the_sandboxs_own() {
    let connect = |port: u16| {
        python(&format!(
            "import socket; socket.create_connection((\"127.0.0.1\", {port})); print(\"met\")"
        ))
    };
    each(|project| {
        let (mut child, port) = serve_inside(project);
        // From the host and from another sandbox.
        let from_host = TcpStream::connect(("127.0.0.1", port));
        let from_other = project.run_sh(&[], &connect(port));
        child.stdin = None;
        assert!(child.wait().unwrap().success());
        assert!(from_host.is_err());
        assert_eq!(from_other.stdout(), "", "{}", from_other.text());
        // From inside to the host; the control finds it.
        let host = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = host.local_addr().unwrap().port();
        assert_eq!(project.bare_sh(&connect(port)).stdout(), "met\n");
        let run = project.run_sh(&[], &connect(port));
        assert_eq!(run.stdout(), "", "{}", run.text());
    });
}

#[test]
fn only_the_families_that_programs_need_are_there() {
    let refused = [
        "socket 17 3 0",        // packet
        "socket 40 1 0",        // vsock
        "socket 38 5 0",        // kernel crypto
        "socket 31 1 0",        // bluetooth
        "socket 29 3 1",        // CAN
        "socket 16 3 9",        // netlink: audit
        "socket 16 3 15",       // netlink: uevents
        "socket 2 3 1",         // raw ICMP
        "socket 2 2 1",         // ICMP without privilege
        "socket 2 3 255",       // raw IP
        "socket 2 1 132",       // SCTP
        "socket 2 2 136",       // UDP-Lite
        "socket 2 0x80001 262", // MPTCP
        "socketpair 16 2 0 zeros",
        "socketpair 2 1 0 zeros",
    ];
    let there = [
        "socket 1 1 0",
        "socket 1 5 0",
        "socket 2 1 6",
        "socket 2 2 17",
        "socket 10 0x80801 0",
        "socket 16 3 0",
        "socketpair 1 1 0 zeros",
    ];
    each(|project| {
        place(project);
        let bare = outside(project, &refused);
        let (answers, ran) = inside(project, &[], &refused);
        assert_eq!(answers, [const { "97" }; 15]);
        assert_eq!(refusals(&ran), ["kernel.sockets socket", "kernel.sockets socketpair"]);
        let others = bare.iter().filter(|answer| *answer != "97").count();
        assert!(others >= 6, "{bare:?}");
        let (answers, ran) = inside(project, &[], &there);
        assert_eq!(answers, [const { "ok" }; 7]);
        assert_eq!(refusals(&ran), [""; 0]);
    });
}

/// Sockets of the host on paths: those of places that are hidden are not there.
/// One in the project is, in a live workspace: it is the user's own, as the
/// files are.
/// Routes and links can be looked at, not changed.
#[test]
fn links_cannot_be_changed() {
    // RTM_NEWLINK for interface 1, with no flag set of those to change: IFF_UP.
    let program = r#"
import socket, struct
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
body = struct.pack("=BBHiII", 0, 0, 0, 1, 0, 1)
s.send(struct.pack("=IHHII", 16 + len(body), 16, 5, 1, 0) + body)
print(struct.unpack_from("=i", s.recv(4096), 16)[0])
print(sorted(name for _, name in socket.if_nameindex()))
"#;
    each(|project| {
        let run = project.run_sh(&[], &python(program));
        assert_eq!(run.stdout(), "-1\n['lo']\n", "EPERM: {}", run.text());
        // The control: in a network of one's own that belongs to one, it is done.
        let outside = project.bare("unshare").args(["-Urn", "sh", "-c", &python(program)]).output();
        assert_eq!(String::from_utf8(outside.unwrap().stdout).unwrap(), "0\n['lo']\n");
    });
}

#[test]
fn sockets_on_paths_are_found_only_in_a_live_project() {
    each(|project| {
        let places =
            [project.outside().join("s"), project.home().join("s"), project.root().join("s")];
        let listeners = places.clone().map(|path| {
            let listener = UnixListener::bind(&path).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
            project.user.give(&path);
            listener
        });
        let connect = places.clone().map(|path| {
            let path = path.display();
            python(&format!(
                "import socket; socket.socket(socket.AF_UNIX).connect(\"{path}\"); print(\"met\")"
            ))
        });
        for (index, script) in connect.iter().enumerate() {
            assert_eq!(project.bare_sh(script).stdout(), "met\n");
            let is_project = index == 2;
            let live = project.run_sh(&[], script);
            let expected = if is_project { "met\n" } else { "" };
            assert_eq!(live.stdout(), expected, "{}", live.text());
            let review = project.run_sh(&["--workspace", "review"], script);
            assert_eq!(review.stdout(), "", "{}", review.text());
            let none = project.run_sh(&["--workspace", "none"], script);
            assert_eq!(none.stdout(), "", "{}", none.text());
        }
        // One that is hidden is not reachable there either.
        let hidden = project.run_sh(&["--hide", "s"], &connect[2]);
        assert_eq!(hidden.stdout(), "", "{}", hidden.text());
        drop(listeners);
    });
}

#[test]
fn abstract_sockets_of_the_host_are_not_there() {
    each(|project| {
        let name = format!("atoll-test-{}-{:?}", std::process::id(), project.user);
        let address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let script = python(&format!(
            "import socket; socket.socket(socket.AF_UNIX).connect(\"\\0{name}\"); print(\"met\")"
        ));
        assert_eq!(project.bare_sh(&script).stdout(), "met\n");
        let run = project.run_sh(&[], &script);
        assert_eq!(run.stdout(), "", "{}", run.text());
        drop(listener);
    });
}

/// What leaves the machine fails at once, with an errno that clients know.
#[test]
fn connections_and_lookups_fail_at_once() {
    let script = python(
        r#"
import errno, socket, time
def attempt(name, act):
    start = time.monotonic()
    try: act(); result = "done"
    except socket.gaierror as error: result = {-3: "EAI_AGAIN", -2: "EAI_NONAME"}.get(error.errno, str(error))
    except OSError as error: result = errno.errorcode[error.errno]
    took = time.monotonic() - start
    print(name, result, "fast" if took < 1 else took)
def tcp(family, address):
    return lambda: socket.socket(family).connect(address)
def udp(family, address):
    return lambda: socket.socket(family, socket.SOCK_DGRAM).sendto(b"x", address)
attempt("tcp4", tcp(socket.AF_INET, ("192.0.2.1", 443)))
attempt("tcp6", tcp(socket.AF_INET6, ("2001:db8::1", 443)))
attempt("udp4", udp(socket.AF_INET, ("192.0.2.1", 443)))
attempt("udp6", udp(socket.AF_INET6, ("2001:db8::1", 443)))
attempt("link", tcp(socket.AF_INET, ("169.254.169.254", 80)))
attempt("name", lambda: socket.getaddrinfo("example.com", 443))
attempt("localhost", lambda: socket.getaddrinfo("localhost", 443))"#,
    );
    each(|project| {
        let run = project.run_sh(&[], &script);
        let expected = "tcp4 ENETUNREACH fast\ntcp6 ENETUNREACH fast\nudp4 ENETUNREACH fast\n\
            udp6 ENETUNREACH fast\nlink ENETUNREACH fast\nname EAI_AGAIN fast\n\
            localhost done fast\n";
        assert_eq!(run.stdout(), expected, "{}", run.text());
    });
}

#[test]
fn what_wanted_to_get_out_is_told_in_one_line() {
    let connect =
        |address: &str| python(&format!("import socket; socket.create_connection({address})"));
    each(|project| {
        for mode in ["live", "review"] {
            let flags = ["--workspace", mode];
            let script = format!(
                "{}; {}; {}",
                connect("(\"93.184.216.34\", 443)"),
                connect("(\"93.184.216.34\", 443)"),
                connect("(\"2001:db8::1\", 80)")
            );
            let run = project.run_sh(&flags, &script);
            let lines: Vec<_> =
                run.stderr().lines().filter(|l| l.contains("atoll: ")).map(str::to_owned).collect();
            assert_eq!(lines.len(), 1, "{}", run.text());
            let expected =
                "atoll: refused connect 93.184.216.34:443 and 1 more: rule network.none; ";
            assert!(lines[0].starts_with(expected), "{}", run.text());
            let run = project.run_sh(&flags, &connect("(\"example.com\", 443)"));
            let expected = "atoll: refused name lookup: rule network.none; ";
            assert!(run.stderr().lines().any(|line| line.starts_with(expected)), "{}", run.text());
        }
    });
}

/// Being looked at must not change what a connection does.
#[test]
fn many_connections_at_once_all_come_about() {
    let script = python(
        r#"
import socket, threading
server = socket.create_server(("127.0.0.1", 0), backlog=512)
def serve():
    for _ in range(200):
        peer, _ = server.accept()
        peer.sendall(peer.recv(16)); peer.close()
thread = threading.Thread(target=serve); thread.start()
good = []
def client(n):
    with socket.create_connection(server.getsockname()) as s:
        s.sendall(b"%d" % n); good.append(int(s.recv(16)) == n)
clients = [threading.Thread(target=client, args=(n,)) for n in range(200)]
for c in clients: c.start()
for c in clients: c.join()
thread.join()
s = socket.socket(); s.setblocking(False); print(s.connect_ex(server.getsockname()))
print(socket.socket().connect_ex(("127.0.0.1", 1)))
print(len(good), all(good))"#,
    );
    each(|project| {
        for mode in ["live", "review"] {
            let run = project.run_sh(&["--workspace", mode], &script);
            // EINPROGRESS, ECONNREFUSED
            assert_eq!(run.stdout(), "115\n111\n200 True\n", "{}", run.text());
            assert!(!run.stderr().contains("refused"), "{}", run.text());
        }
    });
}

/// Prints what a connection costs; only a gross slowdown fails.
#[test]
fn looking_at_a_connection_costs_little() {
    let script = python(
        r#"
import socket, time
target = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); target.bind(("127.0.0.1", 0))
address = target.getsockname()
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
best = 1e9
for _ in range(10):
    start = time.perf_counter()
    for _ in range(200): client.connect(address)
    best = min(best, (time.perf_counter() - start) / 200)
print(round(best * 1e6, 2))"#,
    );
    each(|project| {
        let cost = |ran: Ran| {
            ran.stdout().trim().parse::<f64>().unwrap_or_else(|_| panic!("{}", ran.text()))
        };
        let bare = cost(project.bare_sh(&script));
        for mode in ["live", "review"] {
            let inside = cost(project.run_sh(&["--workspace", mode], &script));
            eprintln!("connect {mode} {:?}: {bare} us bare, {inside} us inside", project.user);
            assert!(inside < bare + 1000.0);
        }
    });
}

/// Clients that insist are slow by themselves; the sandbox must not add to it.
#[test]
fn clients_end_with_their_own_error() {
    if !super::is_installed("curl", "curl") {
        return;
    }
    each(|project| {
        let run = project.run_sh(&[], "curl -sS https://example.com");
        // Could not resolve host.
        assert_eq!(run.code(), Some(6), "{}", run.text());
        assert!(run.stderr().contains("rule network.none"), "{}", run.text());
        let run = project.run_sh(&[], "curl -sS http://192.0.2.1/");
        // Failed to connect.
        assert_eq!(run.code(), Some(7), "{}", run.text());
        assert!(run.stderr().contains("refused connect 192.0.2.1:80"), "{}", run.text());
    });
}
