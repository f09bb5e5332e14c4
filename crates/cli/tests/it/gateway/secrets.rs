//! Secrets: where they are, and where they are not.

use super::{each, run_sh, state};
use atoll_testkit::internet::Internet;
use atoll_testkit::run::{Project, Ran};
use std::io::Write as _;
use std::process::Stdio;

const VALUE: &str = "ghp_TheRealValue0123456789";

pub(super) fn keep(project: &Project, name: &str, value: &str) {
    let mut command = project.atoll(&["secret", "set", name]);
    command.env("ATOLL_STATE", state(project));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(value.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

/// Flags for a policy that binds the secret to the root of one site.
fn policy(project: &Project, port: u16, form: &str) -> Vec<String> {
    let path = project.outside().join("policy.toml");
    let text = format!(
        "[network]\nmode = \"rules\"\n\
         allow = [\"a.test:{port}\", \"https://b.test:{port}/**\", \"127.0.0.1/32:{port}\"]\n\
         [network.secret.GITHUB]\nat = [\"https://a.test:{port}/own/**\"]\nas = \"{form}\"\n\
         env = \"GITHUB_TOKEN\"\n"
    );
    std::fs::write(&path, text).unwrap();
    vec!["--policy".to_owned(), path.to_str().unwrap().to_owned()]
}

fn run(internet: &Internet, project: &Project, flags: &[String], script: &str) -> Ran {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    run_sh(internet, project, &flags, script)
}

#[test]
fn a_secret_is_put_in_where_it_belongs_and_is_nowhere_inside() {
    each(|project| {
        let internet = Internet::new();
        for name in ["a.test", "b.test"] {
            internet.name(name, &["127.0.0.1"]);
        }
        // It gives everything back that it was sent.
        let site = internet.https(&["a.test", "b.test"], |request| {
            let text = format!("{:?} {}\n", request.headers, request.path);
            (200, vec![("x-echo", request.all("authorization").join(","))], text.into_bytes())
        });
        keep(project, "GITHUB", VALUE);
        let flags = policy(project, site.port, "bearer");
        // The script itself is not to be found.
        let pattern = VALUE.replacen('T', "[T]", 1);
        let script = format!(
            "curl -sSi -H \"Authorization: Bearer $GITHUB_TOKEN\" https://a.test:{port}/own/x; \
             curl -sS -H 'Authorization: Bearer mine' -H 'authorization: Bearer mine too' https://a.test:{port}/own/y; \
             curl -sS -H 'Authorization: Bearer mine' https://a.test:{port}/other; \
             echo; echo token=$GITHUB_TOKEN; cat /proc/self/environ | tr '\\0' '\\n' | grep -c {pattern}; \
             grep -rs {pattern} /proc/*/environ /proc/*/cmdline /tmp /run $HOME . | head -3",
            port = site.port
        );
        let ran = run(&internet, project, &flags, &script);
        let requests = site.requests();
        let sent: Vec<Vec<&str>> =
            requests.iter().map(|request| request.all("authorization")).collect();
        let real = format!("Bearer {VALUE}");
        assert_eq!(
            sent,
            [vec![real.as_str()], vec![real.as_str()], vec!["Bearer mine"]],
            "{}",
            ran.text()
        );
        assert!(!ran.text().contains(VALUE), "{}", ran.text());
        let token = ran.stdout();
        let token = token.lines().find_map(|line| line.strip_prefix("token=")).unwrap().to_owned();
        assert!(token.starts_with("atoll_GITHUB_"), "{token}");
        // What was echoed came back covered.
        assert!(ran.stdout().contains("x-echo: Bearer atoll_GITHUB_"), "{}", ran.text());
    });
}

#[test]
fn a_placeholder_is_not_sent_to_anybody_else() {
    each(|project| {
        let internet = Internet::new();
        for name in ["a.test", "b.test"] {
            internet.name(name, &["127.0.0.1"]);
        }
        let site =
            internet.https(&["a.test", "b.test"], |_| (200, Vec::new(), b"served\n".to_vec()));
        let plain = internet.http(|_| (200, Vec::new(), b"served\n".to_vec()));
        keep(project, "GITHUB", VALUE);
        let mut flags = policy(project, site.port, "bearer");
        flags.extend(["--allow-host".to_owned(), format!("a.test:{}", plain.port)]);
        flags.extend(["--allow-host".to_owned(), format!("127.0.0.1/32:{}", plain.port)]);
        let ask = |host: &str, port: u16, scheme: &str| {
            format!(
                "curl -sS -o /dev/null -w '%{{http_code}} ' -H \"Authorization: Bearer $GITHUB_TOKEN\" {scheme}://{host}:{port}/own/x; "
            )
        };
        let script = [
            ask("b.test", site.port, "https"),
            ask("a.test", plain.port, "http"),
            ask("a.test", site.port, "https"),
        ]
        .concat();
        let ran = run(&internet, project, &flags, &script);
        assert_eq!(ran.stdout(), "403 403 200 ", "{}", ran.text());
        assert!(ran.stderr().contains("[placeholder-elsewhere]"), "{}", ran.text());
        assert!(ran.stderr().contains("[secret-over-http]"), "{}", ran.text());
        assert_eq!((site.requests().len(), plain.requests().len()), (1, 0));
    });
}

#[test]
fn a_secret_that_cannot_be_used_is_told_before_anything_runs() {
    each(|project| {
        let internet = Internet::new();
        let flags = policy(project, 443, "bearer");
        let says = |what: &str| {
            let ran = run(&internet, project, &flags, "echo ran");
            assert_eq!((ran.code(), ran.stdout().as_str()), (Some(125), ""), "{}", ran.text());
            assert!(ran.stderr().contains("atoll secret set GITHUB"), "{}", ran.text());
            assert!(ran.stderr().contains(what), "{}", ran.text());
        };
        says("there is none of this name");
        keep(project, "GITHUB", "short");
        says("8 to 16384 bytes");
        keep(project, "GITHUB", "two\nlines are none");
        says("header");
    });
}

#[test]
fn a_secret_is_shown_as_a_file_where_the_policy_says_so() {
    each(|project| {
        keep(project, "GITHUB", VALUE);
        let path = project.outside().join("policy.toml");
        let flags = ["--policy", path.to_str().unwrap()];
        let file = |place: &str| format!("[network.secret.GITHUB]\nfile = \"{place}\"\n");
        let run = |script: &str| {
            let mut command = project.atoll(&["run"]);
            command.args(flags).args(["--", "sh", "-c", script]);
            Ran(command.env("ATOLL_STATE", state(project)).output().unwrap())
        };
        std::fs::write(&path, file("/run/secrets/token")).unwrap();
        let ran = run("cat /run/secrets/token; echo; stat -c %a /run/secrets/token; ls -A; env");
        let stdout = ran.stdout();
        assert!(stdout.starts_with(&format!("{VALUE}\n400\n")), "{}", ran.text());
        assert_eq!(stdout.matches(VALUE).count(), 1, "{}", ran.text());
        // It is never written where it would stay.
        let place = project.root().join("token");
        std::fs::write(&path, file(place.to_str().unwrap())).unwrap();
        let ran = run("true");
        assert_eq!(ran.code(), Some(125), "{}", ran.text());
        assert!(ran.stderr().contains("is not below /run/secrets"), "{}", ran.text());
        assert!(!place.exists());
    });
}
