//! A sandbox that wears its gateway out, and servers that wish it ill.

use super::process::below;
use super::{allowing, atoll, each, run_python, told};
use atoll_testkit::internet::Internet;
use atoll_testkit::process::wait_until;
use atoll_testkit::run::Ran;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Stdio;
use std::thread;

/// Python that makes questions for names, and reads what the answers say.
const QUESTIONS: &str = r#"
import socket, struct
HEAD = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0)
def question(name, number=7):
    labels = b"".join(bytes([len(l)]) + l for l in name.encode().split(b"."))
    return struct.pack(">HHHHHH", number, 0x100, 1, 0, 0, 0) + labels + b"\0\0\1\0\1"
def address(answer): return socket.inet_ntoa(answer[-4:]) if answer[7] else None
def udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(60); s.connect(("198.18.0.1", 53)); return s
"#;

#[test]
fn questions_that_are_none_and_floods_of_them_do_no_harm() {
    each(|project| {
        let internet = Internet::new();
        let attack = r#"
whole = question("a.test")
bad = [whole[:n] for n in range(len(whole))] + [
    HEAD + b"\xc0\x0c\0\1\0\1", HEAD + b"\xc0\x0e\xc0\x0c\0\1\0\1", HEAD + b"\1a\xc0\x0c\0\1\0\1",
    HEAD + b"\1a" * 300 + b"\0\0\1\0\1", HEAD + b"\x7fa", HEAD[:4] + b"\xff" * 8 + whole[12:],
    whole + b"\0" * 4000, b"\xff" * 512,
]
s = udp()
for b in bad * 20: s.send(b)
for n in range(20_000): s.send(question(f"{n}.evil.test", n & 0xffff))
for b in [struct.pack(">H", len(b)) + b for b in bad] + [b"\xff\xff", b"\0", b"\0\0", struct.pack(">H", 4096)]:
    for ends in [False, True]:
        t = socket.create_connection(("198.18.0.1", 53), timeout=60); t.sendall(b)
        if ends: t.shutdown(socket.SHUT_WR)
        t.close()
t = socket.create_connection(("198.18.0.1", 53), timeout=60)
t.sendall((struct.pack(">H", len(whole)) + whole) * 1000)
got = b""
while len(got) < 1000 * (2 + len(whole) + 16): got += t.recv(1 << 16)
print(socket.gethostbyname("a.test"), address(got))
"#;
        let program = format!("{QUESTIONS}{attack}");
        let run = run_python(&internet, project, &allowing(&["a.test"]), &program);
        assert_eq!(run.stdout(), "11.0.0.1 11.0.0.1\n", "{}", run.text());
        // Not each of the twenty thousand is told by itself, and none is forgotten.
        assert!(run.stderr().lines().count() < 100, "{}", run.text());
        assert!(told(&run).iter().any(|line| line.contains("evil.test")), "{}", run.text());
    });
}

#[test]
fn more_names_than_there_are_addresses_take_no_other_names_away() {
    each(|project| {
        let internet = Internet::new();
        let attack = r#"
s = udp()
def ask(names):
    found = {}
    for n, name in enumerate(names): s.send(question(name, n))
    for _ in names:
        answer = s.recv(999); found[struct.unpack(">H", answer[:2])[0]] = address(answer)
    return found
first = ask(["first.big.test"])[0]
for begin in range(1, 65_534, 64):
    found = ask([f"{n}.big.test" for n in range(begin, min(begin + 64, 65_534))])
print(first, sorted(found.items())[-1][1], ask(["x.big.test", "first.big.test", "7.big.test"]))
"#;
        let program = format!("{QUESTIONS}{attack}");
        let run = run_python(&internet, project, &allowing(&["*.big.test"]), &program);
        let expected = "11.0.0.1 11.0.255.254 {0: '198.18.0.3', 1: '11.0.0.1', 2: '11.0.0.8'}\n";
        assert_eq!(run.stdout(), expected, "{}", run.text());
        let lines = told(&run);
        assert!(lines.iter().any(|line| line.contains("[too-many-names]")), "{}", run.text());
    });
}

/// Descriptors and KiB of memory of a process.
fn used(pid: i32) -> (usize, u64) {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    (files, memory.split_whitespace().next().unwrap().parse().unwrap())
}

#[test]
fn many_connections_take_what_one_sandbox_may_have_and_give_it_back() {
    each(|project| {
        let internet = Internet::new();
        internet.name("a.test", &["127.0.0.1"]);
        let port = internet.serve(|mut stream| {
            stream.write_all(b"served").ok();
        });
        let open = internet.serve(|_| ());
        let rules = [
            format!("tcp://a.test:{port}"),
            format!("a.test:{open}"),
            format!("127.0.0.1/32:{port},{open}"),
        ];
        let program = format!(
            r#"
import resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]; resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
def served(): return socket.create_connection(("a.test", {port}), timeout=60).recv(99).decode()
ways = [b"", b"\x16\x03\x01\x02\x00", b"GET / HT", b"GET / HTTP/1.1\r\nx: " + b"a" * 60_000, b"GET / HTTP/1.1\r\n\r\n" * 100]
print(served(), flush=True); sys.stdin.readline()
all = []
for n in range(min(3000, hard - 50)):
    try:
        s = socket.create_connection(("a.test", {open}), timeout=60); s.setblocking(False); all.append(s)
        s.send(ways[n % 5])
    # It is turned away, perhaps before it is there.
    except OSError: pass
print("open", flush=True); sys.stdin.readline()
for s in all: s.close()
print("closed", flush=True); sys.stdin.readline()
print(served(), flush=True)
"#
        );
        let mut command = atoll(&internet, project, &allowing(&[&rules[0], &rules[1], &rules[2]]));
        command.args(["--", "python3", "-c", &program]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut run = command.spawn().unwrap();
        let launcher = i32::try_from(run.id()).unwrap();
        let mut output = BufReader::new(run.stdout.take().unwrap());
        let mut heard = || {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            line
        };
        assert_eq!(heard(), "served\n");
        let gateway = below(launcher, "atoll-gateway").expect("there is one");
        let (files, memory) = used(gateway);
        let mut input = run.stdin.take().unwrap();
        input.write_all(b"\n").unwrap();
        assert_eq!(heard(), "open\n");
        let (most_files, most_memory) = used(gateway);
        assert!(most_files <= files + 1024 + 16, "{most_files} descriptors");
        assert!(most_memory < memory + (150 << 10), "{most_memory} KiB");
        input.write_all(b"\n").unwrap();
        assert_eq!(heard(), "closed\n");
        wait_until("all is given back", || used(gateway).0 <= files);
        input.write_all(b"\n").unwrap();
        assert_eq!(heard(), "served\n");
        drop(input);
        assert!(run.wait().unwrap().success());
    });
}

/// Says something, and then nothing but more of the same.
fn endless(mut stream: TcpStream, head: &str, piece: &[u8]) {
    stream.write_all(head.as_bytes()).ok();
    while stream.write_all(piece).is_ok() {}
}

#[test]
fn servers_that_wish_ill_are_said_to() {
    each(|project| {
        let internet = Internet::new();
        internet.name("a.test", &["127.0.0.1"]);
        let head =
            internet.serve(|s| endless(s, "HTTP/1.1 200 OK\r\n", b"x: aaaaaaaaaaaaaaaaaaa\r\n"));
        let line = internet.serve(|s| endless(s, "HTTP/1.1 200 OK\r\nx: ", &[b'a'; 1000]));
        let garbage = internet.serve(|s| endless(s, "", &[0xff; 1000]));
        let closes = internet.serve(drop);
        let resets = internet.serve(|mut stream| {
            // Not before it is connected to.
            stream.read_exact(&mut [0]).ok();
            rustix::net::sockopt::set_socket_linger(&stream, Some(std::time::Duration::ZERO)).ok();
        });
        let many: Vec<String> = (1..=200).map(|n| format!("127.7.7.{n}")).collect();
        internet.name("many.test", &many.iter().map(String::as_str).collect::<Vec<_>>());
        let ports = [head, line, garbage, closes, resets].map(|port| port.to_string()).join(",");
        let body = internet.serve(|mut stream| {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            endless(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", &[b'a'; 1 << 16]);
        });
        let rules = [
            format!("http://GET@a.test:{ports},{body}"),
            format!("http://GET@many.test:{head}"),
            format!("127.0.0.0/8:{ports},{body}"),
        ];
        let program = format!(
            r#"
import http.client, time
def ask(host, port):
    c = http.client.HTTPConnection(host, port, timeout=60); c.request("GET", "/"); return c.getresponse()
for port in [{ports}]: r = ask("a.test", port); print(r.status, r.headers["atoll-denied"])
r = ask("a.test", {body}); print(r.status, len(r.read(3_000_000))); r.close()
begun = time.monotonic(); r = ask("many.test", {head}); print(r.status, r.headers["atoll-denied"], time.monotonic() - begun < 30)
"#
        );
        let flags = allowing(&[&rules[0], &rules[1], &rules[2]]);
        let run = run_python(&internet, project, &flags, &program);
        let expected =
            format!("{}200 3000000\n502 connect-failed True\n", "502 upstream-failed\n".repeat(5));
        assert_eq!(run.stdout(), expected, "{}", run.text());
    });
}

#[test]
fn a_dns_server_that_wishes_ill_only_has_its_names_not_found() {
    each(|project| {
        let internet = Internet::new();
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        // A true answer that says that it is cut, and nothing over TCP.
        let cut = UdpSocket::bind("127.0.0.1:0").unwrap();
        let _tcp = TcpListener::bind(cut.local_addr().unwrap()).unwrap();
        let garbage = UdpSocket::bind("127.0.0.1:0").unwrap();
        let servers = [&silent, &cut, &garbage].map(|s| s.local_addr().unwrap().to_string());
        thread::spawn(move || {
            let mut buffer = [0; 2048];
            while let Ok((length, from)) = cut.recv_from(&mut buffer) {
                buffer[2..4].copy_from_slice(&[0x83, 0x80]);
                cut.send_to(&buffer[..length], from).ok();
            }
        });
        thread::spawn(move || {
            let mut buffer = [0xff; 2048];
            while let Ok((_, from)) = garbage.recv_from(&mut buffer[..2]) {
                for _ in 0..1000 {
                    garbage.send_to(&buffer, from).ok();
                }
            }
        });
        let flags = allowing(&["http://GET@a.test"]);
        let mut command = atoll(&internet, project, &flags);
        command.env("ATOLL_DNS", servers.join(","));
        let program = "import http.client\nc = http.client.HTTPConnection('a.test', timeout=60); \
                       c.request('GET', '/'); r = c.getresponse(); \
                       print(r.status, r.headers['atoll-denied'])";
        let run = Ran(command.args(["--", "python3", "-c", program]).output().unwrap());
        assert_eq!(run.stdout(), "502 lookup-failed\n", "{}", run.text());
    });
}
