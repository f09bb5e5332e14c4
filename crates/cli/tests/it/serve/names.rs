//! Names and addresses that the flags of `atoll serve` give to a server and its previews.

use super::execs::post;
use super::support::{command, log, state};
use super::tcp::addresses;
use super::{Served, each};
use atoll_testkit::run::{Project, Ran};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::Command;

const PORT: u16 = 8000;

/// Starts a server of one page in the sandbox `web`, and exposes it.
fn page(served: &Served<'_>) -> Value {
    assert_eq!(served.create("web").status, 201);
    let script = format!(
        "mkdir /tmp/site && cd /tmp/site && echo page > index.html && \
         exec python3 -m http.server --bind 127.0.0.1 {PORT}"
    );
    let started = post(served, "execs", &json!({ "shell": script }));
    assert_eq!(started.status, 201, "{started:?}");
    let wait = json!({ "for": { "http": { "port": PORT } }, "timeout_ms": 60_000 });
    let waited = post(served, "wait", &wait);
    assert_eq!(waited.status, 200, "{waited:?}");
    let exposed = post(served, &format!("ports/{PORT}/expose"), &json!({}));
    assert_eq!(exposed.status, 200, "{exposed:?}");
    exposed.body
}

/// Asks for an address at a server, whatever resolves its name elsewhere.
fn get(server: SocketAddr, url: &str, headers: &[&str]) -> (String, String) {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--max-time", "20", "-w", "\n%{http_code}"]);
    curl.args(["--connect-to", &format!("::{server}")]).args(headers).arg(url);
    let ran = Ran(curl.output().unwrap());
    let text = ran.stdout();
    let (body, status) = text.rsplit_once('\n').unwrap_or_else(|| panic!("{}", ran.text()));
    (status.to_owned(), body.to_owned())
}

/// Where previews are listened for.
fn previews(project: &Project) -> SocketAddr {
    let log = log(project);
    let word = log.split_whitespace().find_map(|word| word.strip_prefix("previews="));
    word.unwrap().parse().unwrap()
}

#[test]
fn previews_have_a_domain_and_a_socket_of_their_own_and_the_server_its_names() {
    each(|project| {
        let flags = ["--listen", "127.0.0.1:0", "--preview-listen", "127.0.0.1:0"];
        let names = ["--preview-domain", "Preview.Test", "--server-name", "box.example"];
        let served = Served::start(project, &[flags, names].concat());
        let (api, previews) = (addresses(project)[0], previews(project));
        let preview = page(&served);
        let (url, token) = (preview["url"].as_str().unwrap(), preview["token"].as_str().unwrap());
        assert!(url.starts_with(&format!("http://{PORT}-")), "{url}");
        assert!(url.ends_with(&format!("-{token}.preview.test:{}/", previews.port())), "{url}");
        let by_path = preview["path_url"].as_str().unwrap();
        assert!(by_path.starts_with(&format!("http://{previews}/preview/")), "{by_path}");
        for url in [url, by_path] {
            assert_eq!(get(previews, url, &[]), ("200".to_owned(), "page\n".to_owned()));
            // The API's socket has no previews, whatever the name.
            assert_ne!(get(api, url, &[]).0, "200", "{url}");
        }

        let key = std::fs::read_to_string(state(project).join("first-key")).unwrap();
        let key = format!("x-api-key: {}", key.trim());
        let list = |server, name: &str| {
            get(server, &format!("http://{name}/v1/sandboxes"), &["-H", &key]).0
        };
        for name in ["box.example", "BOX.example:80", "localhost", "127.0.0.1"] {
            assert_eq!(list(api, name), "200", "{name}");
        }
        for name in ["other.example", "a.box.example", "preview.test"] {
            assert_eq!(list(api, name), "403", "{name}");
        }
        assert_ne!(list(previews, "localhost"), "200");
    });
}

#[test]
fn behind_a_proxy_addresses_are_the_proxys() {
    each(|project| {
        let flags = ["--preview-listen", "127.0.0.1:0", "--preview-domain", "preview.test"];
        let served = Served::start(
            project,
            &[&flags[..], &["--preview-https", "--preview-port", "443"]].concat(),
        );
        let preview = page(&served);
        let url = preview["url"].as_str().unwrap();
        assert!(url.starts_with("https://") && url.ends_with(".preview.test/"), "{url}");
        // What the proxy forwards.
        let forwarded = url.replacen("https:", "http:", 1);
        assert_eq!(get(previews(project), &forwarded, &[]).1, "page\n");
        // A key was not wanted, for nobody can use one.
        assert!(!state(project).join("first-key").exists());
    });
}

#[test]
fn without_a_tcp_socket_nothing_is_exposed() {
    each(|project| {
        let served = Served::start(project, &[]);
        assert_eq!(served.create("web").status, 201);
        let refused = post(&served, "ports/80/expose", &json!({}));
        assert_eq!(refused.body["error"]["code"], "refused_by_policy", "{refused:?}");
        let next = refused.body["error"]["next_step"].as_str().unwrap();
        assert!(next.contains("--preview-listen"), "{next}");
    });
}

#[test]
fn names_that_cannot_be_are_refused() {
    each(|project| {
        for (flags, code, what) in [
            (&["--server-name", "http://box"][..], 2, "write a DNS name"),
            (&["--server-name", "10.0.0.1"], 2, "answers to its addresses"),
            (&["--preview-domain", "*.preview.test"], 2, "write a DNS name"),
            (&["--preview-port", "0"], 2, "--preview-port"),
            (
                &["--server-name", "api.example.com", "--preview-domain", "example.com"],
                125,
                "every name is one of a preview",
            ),
        ] {
            let mut command = command(project, flags);
            let ran = Ran(command.stderr(std::process::Stdio::piped()).output().unwrap());
            assert_eq!(ran.code(), Some(code), "{flags:?}: {}", ran.text());
            assert!(ran.stderr().contains(what), "{flags:?}: {}", ran.text());
        }
    });
}
