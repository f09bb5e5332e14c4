//! git over https, with credentials that the sandbox does not have.

use super::ways::{OPENED, PASSED, Ways};
use super::{atoll, each, secrets};
use atoll_testkit::internet::{Request, Response};
use atoll_testkit::run::Ran;
use atoll_testkit::skip::is_installed;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

const VALUE: &str = "secretsecret";
/// `x-access-token:secretsecret`.
const CREDENTIALS: &str = "Basic eC1hY2Nlc3MtdG9rZW46c2VjcmV0c2VjcmV0";

fn git(words: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=me", "-c", "user.email=me@a.test"]).args(words);
    let output = git.stdin(Stdio::null()).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{words:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Serves repositories below `root` as git itself does (git-http-backend(1)); under the name that
/// is opened to who has the credentials.
fn serve(root: &Path, request: &Request) -> Response {
    let is_opened = request.all("host")[0].starts_with(OPENED);
    if is_opened && request.all("authorization") != [CREDENTIALS] {
        let asks = vec![("www-authenticate", "Basic realm=\"test\"".to_owned())];
        return (401, asks, Vec::new());
    }
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    let first = |name| request.all(name).first().copied().unwrap_or_default();
    let mut backend = Command::new("git");
    backend.arg("http-backend").stdin(Stdio::piped()).stdout(Stdio::piped());
    backend.env("GIT_PROJECT_ROOT", root).env("GIT_HTTP_EXPORT_ALL", "1");
    backend.env("PATH_INFO", path.trim_start_matches("/ok")).env("QUERY_STRING", query);
    backend.env("REQUEST_METHOD", &request.method).env("REMOTE_USER", "me");
    backend.env("CONTENT_TYPE", first("content-type"));
    backend.env("CONTENT_LENGTH", request.body.len().to_string());
    backend.env("HTTP_CONTENT_ENCODING", first("content-encoding"));
    backend.env("GIT_PROTOCOL", first("git-protocol"));
    let mut child = backend.spawn().unwrap();
    let (mut input, body) = (child.stdin.take().unwrap(), request.body.clone());
    let sent = thread::spawn(move || input.write_all(&body));
    let output = child.wait_with_output().unwrap().stdout;
    sent.join().unwrap().ok();
    let end = output.windows(4).position(|at| at == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&output[..end]).into_owned();
    let value =
        |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let status = value("Status").map_or(200, |status| status[..3].parse().unwrap());
    let kind = value("Content-Type").unwrap_or_default().to_owned();
    (status, vec![("content-type", kind)], output[end + 4..].to_vec())
}

#[test]
fn repositories_are_cloned_and_pushed_to_with_a_placeholder() {
    if !is_installed("git", "git-over-https") {
        return;
    }
    each(|project| {
        let base = tempfile::tempdir().unwrap();
        let repository = base.path().join("r.git");
        let at = format!("--git-dir={}", repository.display());
        git(&["init", "-q", "--bare", "-b", "main", repository.to_str().unwrap()]);
        git(&[&at, "config", "http.receivepack", "true"]);
        let tree = git(&[&at, "mktree"]);
        let commit = git(&[&at, "commit-tree", "-m", "one", &tree]);
        git(&[&at, "update-ref", "refs/heads/main", &commit]);
        let root = base.path().to_owned();
        let ways = Ways::with(move |request| serve(&root, request));
        secrets::keep(project, "GIT", VALUE);
        let policy = project.outside().join("policy.toml");
        let port = ways.port;
        let text = format!(
            "[network.secret.GIT]\nat = [\"https://{OPENED}:{port}/ok/**\"]\n\
             as = \"basic:x-access-token\"\nenv = \"GIT_TOKEN\"\n"
        );
        std::fs::write(&policy, text).unwrap();
        let script = format!(
            "set -e; cd /tmp; git clone -q https://{PASSED}:{port}/ok/r.git passed
            git clone -q https://x-access-token:$GIT_TOKEN@{OPENED}:{port}/ok/r.git opened
            cd opened; head -c 3000000 /dev/urandom > big; git add big
            git -c user.name=a -c user.email=a@a.test commit -qm two; git push -q origin HEAD
            cd ../passed; git pull -q; cmp big ../opened/big; git log --format=%s
            echo $GIT_TOKEN | grep -c {VALUE} || true"
        );
        let mut command = atoll(&ways.internet, project, &ways.flags());
        command.arg("--policy").arg(&policy).args(["--", "sh", "-c", &script]);
        let run = Ran(command.output().unwrap());
        assert_eq!(run.stdout(), "two\none\n0\n", "{}", run.text());
        assert_eq!(run.code(), Some(0), "{}", run.text());
        assert_eq!(git(&[&at, "log", "--format=%s", "main"]), "two\none");
    });
}
