//! Programs that agents use, through TLS that is opened.

use crate::lab::{Answer, Lab, NAME, PLACEHOLDER, VALUE, echo, whole};
use atoll_testkit::skip::{is_installed, skip};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Response;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

/// What a program printed, which must have ended well.
#[track_caller]
fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {status}: {stderr}");
    String::from_utf8_lossy(&stdout).into_owned()
}

/// Nothing of the environment but where programs are.
fn program(name: impl AsRef<std::ffi::OsStr>, home: &Path) -> Command {
    let mut command = Command::new(name);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", home);
    command
}

fn curl(lab: &Lab, gateway: SocketAddr, trusted: &Path, more: &[&str]) -> String {
    let (scheme, port) = if lab.is_tls { ("https", 443) } else { ("http", 80) };
    let mut curl = program("curl", Path::new("/"));
    curl.args(["--silent", "--show-error", "--max-time", "30", "--cacert"]).arg(trusted);
    curl.args(["--connect-to", &format!("{NAME}:{port}:{gateway}")]);
    run(curl.args(more).arg(format!("{scheme}://{NAME}/a?b")))
}

#[test]
fn curl_in_both_versions() {
    if !is_installed("curl", "curl") {
        return;
    }
    let body = tempfile::NamedTempFile::new().unwrap();
    body.as_file().write_all(&vec![b'x'; 3_000_000]).unwrap();
    let upload = format!("@{}", body.path().display());
    for is_tls in [true, false] {
        let lab = Lab::new(is_tls);
        let trusted = lab.trusted();
        let session = lab.session(lab.host(echo()));
        let gateway = lab.gateway(&session);
        let version = if is_tls { "HTTP/2.0" } else { "HTTP/1.1" };
        let prior = if is_tls { "--http2" } else { "--http2-prior-knowledge" };
        for client in ["--http1.1", prior] {
            let text = curl(&lab, gateway, trusted.path(), &[client]);
            // The host is spoken to in the best version that it has.
            assert!(text.starts_with(&format!("GET /a?b {version}\n")), "{client}: {text}");
            let text = curl(&lab, gateway, trusted.path(), &[client, "--data-binary", &upload]);
            assert!(text.starts_with(&format!("POST /a?b {version}\n")), "{client}");
            assert!(text.ends_with(&"x".repeat(3_000_000)), "{client}");
            let head = curl(&lab, gateway, trusted.path(), &[client, "--head"]);
            assert!(head.contains("content-length: "), "{client}: {head}");
            let denied = ["--header", "Host: evil.example", "--output", "-", client, "--include"];
            let text = curl(&lab, gateway, trusted.path(), &denied);
            assert!(text.contains("atoll-denied: host-mismatch"), "{client}: {text}");
        }
    }
}

#[test]
fn curl_with_a_secret() {
    if !is_installed("curl", "curl") {
        return;
    }
    let lab = Lab::new(true);
    let trusted = lab.trusted();
    let session = lab.with_secret(lab.host(echo()), "bearer");
    let gateway = lab.gateway(&session);
    let authorization = format!("Authorization: Bearer {PLACEHOLDER}");
    for client in ["--http1.1", "--http2"] {
        let sent = ["--compressed", client, "--header", &authorization];
        let text = curl(&lab, gateway, trusted.path(), &sent);
        // What came back is the placeholder, cut to the length of the value that was sent.
        let covered = format!("authorization: Bearer {}\n", &PLACEHOLDER[..VALUE.len()]);
        assert!(text.contains(&covered), "{client}: {text}");
        assert!(text.contains("accept-encoding: identity\n"), "{client}: {text}");
    }
    assert_eq!((session.seen.used(), session.seen.redacted()), (2, 2));
}

const REQUESTS: &str = "
import sys, requests
url, trusted = sys.argv[1:]
with requests.Session() as session:
    session.verify = trusted
    for number in range(3):
        answer = session.post(url, data=(b'part' for _ in range(3)), headers={'X-Number': str(number)})
        answer.raise_for_status()
        assert answer.text.endswith('partpartpart'), answer.text
        assert f'x-number: {number}' in answer.text, answer.text
    answer = session.get(url, headers={'Host': 'evil.example'})
    assert answer.status_code == 421 and answer.json()['error']['code'] == 'host-mismatch'
";

const HTTPX: &str = "
import sys, ssl, asyncio, httpx
url, trusted = sys.argv[1:]
async def main():
    context = ssl.create_default_context(cafile=trusted)
    for http2 in (False, True):
        async with httpx.AsyncClient(verify=context, http2=http2) as client:
            answers = await asyncio.gather(*(client.post(url, content=str(n) * 1000) for n in range(20)))
            for n, answer in enumerate(answers):
                assert answer.http_version == ('HTTP/2' if http2 else 'HTTP/1.1')
                assert answer.text.endswith(str(n) * 1000), answer.text
asyncio.run(main())
";

#[test]
fn python_clients() {
    for (module, script) in [("requests", REQUESTS), ("httpx, h2", HTTPX)] {
        // Debian's, which has what Debian's packages bring.
        let home = tempfile::tempdir().unwrap();
        let has = program("/usr/bin/python3", home.path())
            .args(["-c", &format!("import {module}")])
            .stderr(Stdio::null())
            .status();
        if !has.is_ok_and(|status| status.success()) {
            skip("python-clients", &format!("{module} is not installed"));
            continue;
        }
        let lab = Lab::local();
        let trusted = lab.trusted();
        let session = lab.session(lab.host(echo()));
        let port = lab.gateway(&session).port();
        let url = format!("https://localhost:{port}/a");
        let mut python = program("/usr/bin/python3", home.path());
        run(python.args(["-c", script, &url]).arg(trusted.path()));
    }
}

const FETCH: &str = "
const url = process.argv[1];
const answers = await Promise.all([...Array(10).keys()].map(async (number) => {
  const answer = await fetch(url, { method: 'POST', body: `${number}`.repeat(1000) });
  return [answer.status, (await answer.text()).endsWith(`${number}`.repeat(1000))];
}));
if (!answers.every(([status, same]) => status === 200 && same)) throw new Error(`${answers}`);
const reader = (await fetch(url)).body.getReader();
while (!(await reader.read()).done) {}
";

#[test]
fn node_fetch() {
    if !is_installed("node", "node-fetch") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let lab = Lab::local();
    let trusted = lab.trusted();
    let session = lab.session(lab.host(echo()));
    let url = format!("https://localhost:{}/a", lab.gateway(&session).port());
    let mut node = program("node", home.path());
    node.env("NODE_EXTRA_CA_CERTS", trusted.path());
    run(node.args(["--input-type=module", "--eval", FETCH, "--", &url]));
}

/// Serves repositories as a host of git does, to who knows the secret.
fn git_host(root: &Path) -> Answer {
    let root = root.to_owned();
    let expected = format!("Basic {}", STANDARD.encode(format!("x-access-token:{VALUE}")));
    Arc::new(move |request| {
        if request.header("authorization") != Some(&expected) {
            let mut response = Response::new(whole("who are you?"));
            *response.status_mut() = hyper::StatusCode::UNAUTHORIZED;
            response.headers_mut().insert("www-authenticate", "Basic realm=x".parse().unwrap());
            return response;
        }
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let mut backend = program("git", &root);
        backend.arg("http-backend").env("GIT_PROJECT_ROOT", &root);
        backend.env("GIT_HTTP_EXPORT_ALL", "1").env("REMOTE_USER", "x");
        backend.env("REQUEST_METHOD", &request.method).env("PATH_INFO", path);
        backend.env("QUERY_STRING", query);
        for (name, variable) in [
            ("content-type", "CONTENT_TYPE"),
            ("content-encoding", "HTTP_CONTENT_ENCODING"),
            ("git-protocol", "GIT_PROTOCOL"),
        ] {
            if let Some(value) = request.header(name) {
                backend.env(variable, value);
            }
        }
        backend.env("CONTENT_LENGTH", request.body.len().to_string());
        backend.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut backend = backend.spawn().unwrap();
        backend.stdin.take().unwrap().write_all(&request.body).unwrap();
        let output = backend.wait_with_output().unwrap().stdout;
        let end = output.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let mut response = Response::new(whole(output[end + 4..].to_vec()));
        for line in String::from_utf8_lossy(&output[..end]).lines() {
            let (name, value) = line.split_once(": ").unwrap();
            match name {
                "Status" => *response.status_mut() = value[..3].parse().unwrap(),
                name => {
                    let name: hyper::header::HeaderName = name.parse().unwrap();
                    response.headers_mut().insert(name, value.parse().unwrap());
                }
            }
        }
        response
    })
}

#[test]
fn git_clones_and_pushes_without_knowing_the_secret() {
    if !is_installed("git", "git-over-https") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let git = |arguments: &[&str], trusted: &Path| {
        let mut git = program("git", folder.path());
        git.current_dir(folder.path()).env("GIT_SSL_CAINFO", trusted);
        git.env("GIT_TERMINAL_PROMPT", "0").env("GIT_CONFIG_NOSYSTEM", "1");
        git.args(["-c", "user.name=a", "-c", "user.email=a@example.org"]).args(arguments);
        git
    };
    let lab = Lab::local();
    let trusted = lab.trusted();
    let run_git = |arguments: &[&str]| run(&mut git(arguments, trusted.path()));
    run_git(&["init", "--quiet", "--bare", "origin.git"]);
    run_git(&["-C", "origin.git", "config", "http.receivepack", "true"]);
    let session = lab.with_secret(lab.host(git_host(folder.path())), "basic:x-access-token");
    let url = format!("https://localhost:{}/origin.git", lab.gateway(&session).port());
    run_git(&["clone", "--quiet", &url, "work"]);
    // Enough that git sends it in chunks.
    std::fs::write(folder.path().join("work/file"), random(3_000_000)).unwrap();
    run_git(&["-C", "work", "add", "file"]);
    run_git(&["-C", "work", "commit", "--quiet", "-m", "one"]);
    run_git(&["-C", "work", "push", "--quiet", "origin", "HEAD"]);
    run_git(&["clone", "--quiet", &url, "again"]);
    assert_eq!(
        std::fs::read(folder.path().join("again/file")).unwrap(),
        std::fs::read(folder.path().join("work/file")).unwrap()
    );
    assert!(session.seen.used() >= 4);
    // Who has no secret is not let in.
    let nobody = lab.session(session.upstream);
    let url = format!("https://localhost:{}/origin.git", lab.gateway(&nobody).port());
    let refused = git(&["clone", "--quiet", &url, "third"], trusted.path()).output().unwrap();
    assert!(!refused.status.success());
}

/// Bytes that do not become fewer when they are packed.
fn random(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(length).collect()
}
