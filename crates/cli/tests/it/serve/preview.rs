//! Servers of real sandboxes, as sites of their own: asked by curl, and byte by byte.

use super::support::{log, state};
use super::tcp::addresses;
use super::{Served, each};
use atoll_testkit::guest::Socket;
use atoll_testkit::run::Project;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

/// A server of pages that says what it was asked, and how often its socket was.
const NODE: &str = r#"
const http = require("http"), crypto = require("crypto");
const server = http.createServer((request, response) => {
  let body = "";
  request.on("data", (part) => (body += part));
  request.on("end", () => {
    response.setHeader("Set-Cookie", "page=1; Domain=localhost");
    response.end(JSON.stringify({ host: request.headers.host, key: request.headers["x-api-key"] || null,
      cookie: request.headers.cookie || null, url: request.url, body }));
  });
});
server.on("upgrade", (request, socket) => {
  const guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  const accept = crypto.createHash("sha1").update(request.headers["sec-websocket-key"] + guid).digest("base64");
  const head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
  socket.write(head + "Sec-WebSocket-Accept: " + accept + "\r\nX-Host: " + request.headers.host + "\r\n\r\n");
  for (let n = 0; n < 1000; n++) socket.write(Buffer.from([0x81, 1, 0x78]));
  socket.on("data", (bytes) => socket.end(bytes));
});
server.listen(3000, "127.0.0.1");
"#;

/// A server and one sandbox of it, in which things are run past the server.
struct Site<'a> {
    served: Served<'a>,
    guest: Socket,
    address: SocketAddr,
}

impl<'a> Site<'a> {
    fn start(project: &'a Project) -> Self {
        let served = Served::start(project, &["--listen", "127.0.0.1:0"]);
        let made = served.create("web");
        assert_eq!(made.status, 201, "{made:?}");
        let id = made.body["id"].as_str().unwrap();
        let guest = Socket::new(state(project).join("sandboxes").join(id).join("guest"));
        let address = addresses(project)[0];
        Self { served, guest, address }
    }

    /// Starts a server inside and waits until its port is there.
    fn serve(&self, script: &str, port: u16) {
        let ran = self.guest.sh(&format!("{script} </dev/null >/dev/null 2>&1 & echo begun"));
        assert_eq!(ran.text(), "begun\n", "{ran:?}");
        atoll_testkit::process::wait_until("the server inside", || {
            let ports = self.served.ask("GET", "/v1/sandboxes/web/ports", None).body;
            ports["ports"]
                .as_array()
                .unwrap()
                .iter()
                .any(|one| one["port"] == port && one["is_listening"] == true)
        });
    }

    fn expose(&self, port: u16) -> Value {
        let path = format!("/v1/sandboxes/web/ports/{port}/expose");
        let answer = self.served.ask("POST", &path, Some(&json!({})));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    }
}

pub(super) fn curl(
    preview: &Value,
    key: &str,
    arguments: &[&str],
    path: &str,
) -> (u16, Value, String) {
    let url = format!("{}{path}", preview[key].as_str().unwrap());
    let host = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let mut curl = Command::new("curl");
    // Whatever resolves names here: below `localhost` they are this machine's.
    curl.args(["-sS", "--max-time", "20", "--resolve", &format!("{host}:127.0.0.1")]);
    let ran = curl.args(["-D", "/dev/stderr"]).args(arguments).arg(&url).output().unwrap();
    let (body, head) =
        (String::from_utf8(ran.stdout).unwrap(), String::from_utf8(ran.stderr).unwrap());
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.unwrap_or_else(|| panic!("{url}: {head}"));
    (status, serde_json::from_str(&body).unwrap_or(Value::String(body)), head)
}

#[test]
fn pages_of_a_sandbox_are_seen_by_http1_and_http2() {
    each(|project| {
        let mut site = Site::start(project);
        site.serve(&format!("cat > /tmp/s.js <<'END'\n{NODE}\nEND\nnode /tmp/s.js"), 3000);
        let preview = site.expose(3000);
        let (url, token) = (preview["url"].as_str().unwrap(), preview["token"].as_str().unwrap());
        let host = url.strip_prefix("http://").unwrap().trim_end_matches('/');
        let key = format!("x-api-key: e2b_{}", "0".repeat(40));
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            let arguments = [version, "-H", &key, "-b", "page=1; __atoll_x=2", "-d", "body"];
            let (status, told, head) = curl(&preview, "url", &arguments, "a?b=c");
            assert_eq!(status, 200, "{head}");
            assert_eq!(
                told,
                json!({
                    "host": host, "key": null, "cookie": "page=1", "url": "/a?b=c", "body": "body"
                })
            );
            assert!(
                head.contains("et-cookie: page=1\r\n") || head.contains("et-Cookie: page=1\r\n"),
                "{head}"
            );
            assert_eq!(curl(&preview, "path_url", &[version], "x").1["url"], "/x");
        }
        // A server that died keeps nobody from it: the address is the same afterwards.
        site.served.kill();
        let port = site.address.port().to_string();
        site.served.again();
        let after = *addresses(project).last().unwrap();
        let map = format!("{host}:127.0.0.1:{}", after.port());
        let (status, ..) = curl(&preview, "url", &["--connect-to", &map], "");
        assert_eq!(status, 200, "{port}");
        assert!(!log(project).contains(token), "a token is in the log");
    });
}

#[test]
fn a_socket_of_a_page_loses_no_frame() {
    each(|project| {
        let site = Site::start(project);
        site.serve(&format!("cat > /tmp/s.js <<'END'\n{NODE}\nEND\nnode /tmp/s.js"), 3000);
        let preview = site.expose(3000);
        let host = preview["url"].as_str().unwrap().strip_prefix("http://").unwrap();
        let host = host.trim_end_matches('/');
        let mut stream = TcpStream::connect(site.address).unwrap();
        write!(
            stream,
            "GET /hmr HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        .unwrap();
        let mut reader = BufReader::new(&stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{head}");
        assert!(head.contains(&format!("x-host: {host}\r\n")), "{head}");
        let mut burst = vec![0; 3000];
        reader.read_exact(&mut burst).unwrap();
        assert_eq!(burst, [0x81, 1, b'x'].repeat(1000));
        (&stream).write_all(b"echo").unwrap();
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "echo");
    });
}

#[test]
fn one_that_is_paused_is_woken_and_one_without_a_server_says_what_listens() {
    each(|project| {
        let site = Site::start(project);
        let python = "cd /tmp && echo page > index.html && exec python3 -m http.server \
                      --bind 127.0.0.1 8000";
        site.serve(&format!("sh -c '{python}'"), 8000);
        let preview = site.expose(8000);
        assert_eq!(curl(&preview, "url", &[], "").1, "page\n");
        // Where control groups cannot be had, nothing is paused.
        if site.served.ask("POST", "/v1/sandboxes/web/pause", None).status == 200 {
            assert_eq!(site.served.state("web"), "paused");
            assert_eq!(curl(&preview, "url", &[], "").1, "page\n");
            assert_eq!(site.served.state("web"), "running");
        }
        let closed = site.expose(8001);
        let (status, told, _) = curl(&closed, "url", &[], "");
        assert_eq!((status, &told["error"]["code"]), (502, &json!("unreachable")));
        assert_eq!(told["error"]["details"]["listening"], json!([8000]));
    });
}
