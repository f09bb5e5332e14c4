//! Clients of HTTP, each with its own idea of whom to trust.

use super::ways::{OPENED, PASSED, Ways};
use super::{each, told};
use atoll_testkit::skip::is_installed;
use std::io::{BufRead as _, BufReader, Read, Write};

#[test]
fn curl_in_both_versions() {
    if !is_installed("curl", "curl") {
        return;
    }
    each(|project| {
        let ways = Ways::new();
        let script = "for url in $1 $2; do for version in --http1.1 --http2; do
            curl -sS $version -w '%{http_version} ' $url; done; done
            head -c 3000000 /dev/zero > /tmp/body
            curl -sS --http2 -T /tmp/body $1 -T /tmp/body $2
            for url in $1 $2; do curl -sS -o /dev/null -w '%{http_code} ' $url/../../no; done";
        let run = ways.run_sh(project, "/ok/x", script);
        let one = "GET /ok/x\n1.1 ";
        let expected = format!("{}GET /ok/x\n2 {}200 403 ", one.repeat(3), "PUT /ok/x\n".repeat(2));
        assert_eq!(run.stdout(), expected, "{}", run.text());
        assert_eq!(told(&run).len(), 1, "{}", run.text());
    });
}

#[test]
fn wget_reads_the_file_alone() {
    if !is_installed("wget", "wget") {
        return;
    }
    each(|project| {
        let ways = Ways::new();
        let run = ways.run_sh(project, "/ok/x", "env -i /usr/bin/wget -q -O - $1 $2");
        // The bundle of the system is in the file's place only if there is such a file.
        assert_eq!(run.stdout(), "GET /ok/x\n".repeat(2), "{}", run.text());
    });
}

#[test]
fn openssl_sees_whose_certificate_it_is() {
    if !is_installed("openssl", "openssl") {
        return;
    }
    each(|project| {
        let ways = Ways::new();
        let script = "for url in $1 $2; do host=${url#https://}; host=${host%/}
            openssl s_client -connect $host -servername ${host%:*} -verify_hostname ${host%:*} \
                -verify_return_error < /dev/null 2> /dev/null | sed 's/^ *//' | grep -E '^issuer|^Verify return code' | sort -u
            done";
        let run = ways.run_sh(project, "/", script);
        let stdout = run.stdout();
        let lines: Vec<&str> = stdout.lines().collect();
        assert_eq!(lines.len(), 4, "{}", run.text());
        assert!(lines.iter().filter(|line| line.ends_with("code: 0 (ok)")).count() == 2);
        let issuers: Vec<&&str> = lines.iter().filter(|line| line.starts_with("issuer")).collect();
        assert!(issuers[0].contains("an authority of tests"), "{}", run.text());
        assert!(issuers[1].contains("Atoll sandbox"), "{}", run.text());
    });
}

/// A server of WebSocket for one client, which says one short word.
fn echo(mut stream: impl Read + Write) -> Option<()> {
    let mut reader = BufReader::new(&mut stream);
    let mut line = String::new();
    while reader.read_line(&mut line).ok()? > 2 {
        line.clear();
    }
    // The answer to the key that the client below has (RFC 6455, section 1.3).
    let head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                 Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    reader.get_mut().write_all(head).ok()?;
    reader.get_mut().flush().ok()?;
    let mut frame = [0; 11];
    reader.read_exact(&mut frame).ok()?;
    reader.get_mut().write_all(&[&[0x81, 5], &frame[6..]].concat()).ok()?;
    reader.get_mut().flush().ok()
}

const WEBSOCKET: &str = r#"
import socket, ssl, sys
for name in sys.argv[2:]:
    s = socket.create_connection((name, int(sys.argv[1])), timeout=60)
    s = ssl.create_default_context().wrap_socket(s, server_hostname=name)
    s.sendall(b"GET /ok/ws HTTP/1.1\r\nHost: " + f"{name}:{sys.argv[1]}".encode() + b"\r\n"
        b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
    f = s.makefile("rb")
    print(f.readline().split()[1].decode(), end=" ")
    while f.readline().strip(): pass
    s.sendall(b"\x81\x85\0\0\0\0hello")
    print(f.read(f.read(2)[1]).decode())
"#;

#[test]
fn websockets_are_upgraded() {
    each(|project| {
        let ways = Ways::to(|internet| {
            internet.serve_tls(&[PASSED, OPENED], |stream| {
                echo(stream);
            })
        });
        let port = ways.port.to_string();
        let run = ways.run(project, ["/usr/bin/python3", "-c", WEBSOCKET, &port, PASSED, OPENED]);
        assert_eq!(run.stdout(), "101 hello\n".repeat(2), "{}", run.text());
    });
}
