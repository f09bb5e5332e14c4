//! Connections that are passed through, and those that are not.

use super::{allowing, each, run_python, told};
use atoll_testkit::internet::Internet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// Gives everything back when the other side has said all.
fn echo(mut stream: TcpStream) {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).ok();
    stream.write_all(&all).ok();
}

#[test]
fn much_goes_through_unchanged_and_so_do_the_ends() {
    each(|project| {
        let internet = Internet::new();
        internet.name("a.test", &["127.0.0.1"]);
        let port = internet.serve(echo);
        let (place, grant) = (format!("tcp://a.test:{port}"), format!("127.0.0.1/32:{port}"));
        let program = format!(
            r#"
import socket, hashlib, random, threading
for size in [0, 1, 100_000, 20_000_000]:
    data = random.Random(size).randbytes(size)
    with socket.create_connection(("a.test", {port}), timeout=60) as s:
        def send(): s.sendall(data); s.shutdown(socket.SHUT_WR)
        threading.Thread(target=send).start()
        got = bytearray()
        while piece := s.recv(1 << 20): got += piece
        print(bytes(got) == data)
"#
        );
        let run = run_python(&internet, project, &allowing(&[&place, &grant]), &program);
        assert_eq!(run.stdout(), "True\n".repeat(4), "{}", run.text());
        assert_eq!(told(&run), Vec::<String>::new());
    });
}

#[test]
fn a_host_that_breaks_off_is_not_taken_for_one_that_has_ended() {
    each(|project| {
        let internet = Internet::new();
        internet.name("a.test", &["127.0.0.1"]);
        let port = internet.serve(|mut stream| {
            stream.write_all(b"half of it").unwrap();
            // What was sent and not read is a reset.
            stream.read_exact(&mut [0]).ok();
        });
        let (place, grant) = (format!("tcp://a.test:{port}"), format!("127.0.0.1/32:{port}"));
        let program = format!(
            r#"
import socket
s = socket.create_connection(("a.test", {port}), timeout=60)
print(s.recv(99).decode()); s.sendall(b"xyz")
try: print(s.recv(99))
except ConnectionResetError: print("reset")
"#
        );
        let run = run_python(&internet, project, &allowing(&[&place, &grant]), &program);
        assert_eq!(run.stdout(), "half of it\nreset\n", "{}", run.text());
    });
}

#[test]
fn only_the_port_and_the_protocol_that_a_rule_names() {
    each(|project| {
        let internet = Internet::new();
        internet.name("a.test", &["127.0.0.1"]);
        let allowed = internet.serve(echo);
        let other = internet.serve(echo);
        let (place, grant) =
            (format!("a.test:{allowed}"), format!("127.0.0.1/32:{allowed},{other}"));
        // SSH and the like: the server speaks first, or what is said is neither TLS nor HTTP.
        let program = format!(
            r#"
import socket
for port, says in [({allowed}, b"SSH-2.0-x\r\n"), ({allowed}, b"\x00\x01\x02"), ({other}, b"x")]:
    s = socket.create_connection(("a.test", port), timeout=60)
    try: s.sendall(says); print(s.recv(99)[:12])
    except ConnectionResetError: print("reset")
"#
        );
        let run = run_python(&internet, project, &allowing(&[&place, &grant]), &program);
        let lines = told(&run);
        assert!(lines.iter().any(|line| line.contains("[not-tls]")), "{}", run.text());
        assert!(lines.iter().any(|line| line.contains("[port-not-allowed]")), "{}", run.text());
        assert!(!run.stdout().contains("b'x'"), "{}", run.text());
        assert_eq!(internet.questions(), Vec::<String>::new());
        // The control: rules of the form tcp let all of it through.
        let rules = [format!("tcp://a.test:{allowed},{other}"), grant];
        let program = program.replace("print(s.recv", "s.shutdown(1); print(s.recv");
        let run = run_python(&internet, project, &allowing(&[&rules[0], &rules[1]]), &program);
        assert_eq!(
            run.stdout(),
            "b'SSH-2.0-x\\r\\n'\nb'\\x00\\x01\\x02'\nb'x'\n",
            "{}",
            run.text()
        );
    });
}

#[test]
fn an_address_needs_a_rule_for_its_network() {
    each(|project| {
        let internet = Internet::new();
        let program = r#"
import socket
for place in [("1.2.3.4", 443), ("2606:4700::1111", 443), ("10.0.0.1", 5432)]:
    s = socket.create_connection(place, timeout=60)
    try: s.sendall(b"x"); print(s.recv(99))
    except ConnectionResetError: print("reset")
"#;
        let flags = allowing(&["*", "tcp://*:5432"]);
        let run = run_python(&internet, project, &flags, program);
        let lines = told(&run);
        assert_eq!(lines.len(), 3, "{}", run.text());
        assert!(lines.iter().all(|line| line.contains("[address-not-allowed]")), "{}", run.text());
        // The control: where a rule allows the network, it is connected to, and nobody is there.
        let flags = allowing(&["192.0.2.0/24:443", "127.9.9.0/24:443"]);
        let program = program.replace("1.2.3.4", "192.0.2.1");
        let run = run_python(&internet, project, &flags, &program);
        let lines = told(&run);
        assert_eq!(lines.len(), 3, "{}", run.text());
        assert!(lines[0].contains("192.0.2.1") && lines[0].contains("[not-tls]"), "{}", run.text());
    });
}

#[test]
fn tls_is_passed_through_to_the_host_that_it_names() {
    each(|project| {
        let internet = Internet::new();
        for name in ["a.test", "b.test"] {
            internet.name(name, &["127.0.0.1"]);
        }
        let site = internet.https(&["a.test", "b.test"], |request| {
            (200, Vec::new(), format!("hello {}", request.all("host")[0]).into_bytes())
        });
        let site = Arc::new(site);
        let port = site.port;
        let (place, grant) = (format!("a.test:{port}"), format!("127.0.0.1/32:{port}"));
        let flags = allowing(&[&place, &grant]);
        let program = format!(
            r#"
import socket, ssl
def ask(name, context):
    s = socket.create_connection(("a.test", {port}), timeout=60)
    try:
        t = context.wrap_socket(s, server_hostname=name)
        t.sendall(b"GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % f"{{name}}:{port}".encode())
        got = b""
        while piece := t.recv(9999): got += piece
        head, body = got.split(b"\r\n\r\n")
        return head.split()[1].decode(), body.decode()
    except OSError as e: return type(e).__name__
good = ssl.create_default_context()
print(ask("a.test", good))
print(ask("b.test", good))
none = ssl.create_default_context(); none.check_hostname = False; none.verify_mode = ssl.CERT_NONE
print(ask(None, none))
"#
        );
        let run = run_python(&internet, project, &flags, &program);
        let stdout = run.stdout();
        let lines: Vec<&str> = stdout.lines().collect();
        assert_eq!(lines[0], format!("('200', 'hello a.test:{port}')"), "{}", run.text());
        // Who names another host is told why, and who names none hears nothing.
        assert!(
            lines[1].contains("403") && lines[1].contains("tls-name-mismatch"),
            "{}",
            run.text()
        );
        assert_eq!(lines[2], "ConnectionResetError", "{}", run.text());
        assert_eq!(site.requests().len(), 1, "{}", run.text());
        let told = told(&run);
        assert!(told.iter().any(|line| line.contains("[tls-name-mismatch]")), "{}", run.text());
        assert!(told.iter().any(|line| line.contains("[tls-no-sni]")), "{}", run.text());
    });
}
