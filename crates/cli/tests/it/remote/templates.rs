//! Templates by the command line: built of a project, not built again, followed, versions.

use super::{Served, ask, each, objects, said};
use atoll_testkit::run::Project;

const PYTHON: &str = "/usr/bin/python3";

/// A wheel as others make it: two files and their list, in a zip archive.
const WHEEL: &str = r#"
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    write = lambda name, text: wheel.writestr(zipfile.ZipInfo(name), text)
    write("adder.py", "def add(a, b): return a + b\n")
    info = "adder-1.0.dist-info/"
    write(info + "METADATA", "Metadata-Version: 2.1\nName: adder\nVersion: 1.0\n")
    write(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    write(info + "RECORD", "adder.py,,\n" + "".join(info + n + ",,\n" for n in ("METADATA", "WHEEL", "RECORD")))
"#;

/// The marker is a number that is another one whenever the step is done.
const TEMPLATE: &str = r#"
name = "web"

[[steps]]
workdir = "/home/user/app"

[[steps]]
copy = { from = "wheels", to = "/home/user/wheels" }

[[steps]]
env = { PYTHONPATH = "/home/user/lib", GREETING = "hello" }

[[steps]]
run = """
python3 -m pip install -q --disable-pip-version-check --no-index --no-cache-dir \
    --find-links /home/user/wheels --target /home/user/lib adder
echo installed; echo to stderr >&2
cat /proc/sys/kernel/random/uuid > /home/user/marker
"""

[[steps]]
copy = { from = "main.py", to = "." }

[start]
shell = "exec python3 -m http.server 8132"
ready = { port = 8132 }
"#;

fn project(project: &Project) {
    project.write("build/template.toml", TEMPLATE);
    project.write("build/main.py", "import adder\nprint(adder.add(1, 2))\n");
    project.write("build/.atollignore", "secret\n");
    project.write("build/wheels/secret", "not to be copied\n");
    let wheel = project.root().join("build/wheels/adder-1.0-py3-none-any.whl");
    project.write("wheel.py", WHEEL);
    let mut python = project.bare(PYTHON);
    let made = python.arg("wheel.py").arg(&wheel).output().unwrap();
    assert!(made.status.success(), "{made:?}");
}

fn sh(project: &Project, sandbox: &str, script: &str) -> String {
    said(project, &["exec", sandbox, "--", "sh", "-c", script])
}

#[test]
fn a_python_project_is_built_once_and_each_build_is_a_version() {
    each(|here| {
        let _served = Served::start(here, &[]);
        project(here);
        let first = ask(here, &["template", "build", "build"]);
        assert_eq!(
            (first.code(), first.stdout()),
            (Some(0), "web@1\n".to_owned()),
            "{}",
            first.text()
        );
        for line in ["==> step 4 of 5: run", "installed", "to stderr", "==> start: exec python3"] {
            assert!(first.stderr().contains(line), "{line}: {}", first.stderr());
        }
        said(here, &["create", "one", "--template", "web"]);
        let look = "pwd; echo $GREETING; python3 main.py; ls ~/wheels | grep -c .";
        assert_eq!(sh(here, "one", look), "/home/user/app\nhello\n3\n1\n");
        let get = "python3 -c 'import urllib.request as u; \
                   print(u.urlopen(\"http://127.0.0.1:8132/main.py\").status)'";
        assert_eq!(sh(here, "one", get), "200\n");
        let marker = sh(here, "one", "cat ~/marker");
        assert_eq!(objects(here, &["show", "one", "--json"])[0]["template"], "web@1");

        // Files that were written anew with the same content are the same.
        project(here);
        let second = ask(here, &["template", "build", "build/template.toml"]);
        assert_eq!(
            (second.code(), second.stdout()),
            (Some(0), "web@2\n".to_owned()),
            "{}",
            second.text()
        );
        assert!(second.stderr().contains("steps 1 to 5 were done before"), "{}", second.stderr());
        said(here, &["create", "two", "--template", "web"]);
        assert_eq!(sh(here, "two", "cat ~/marker"), marker);
        // Another file, and only what comes from there on is done.
        here.write("build/main.py", "print('new')\n");
        assert_eq!(said(here, &["template", "build", "build"]), "web@3\n");
        said(here, &["create", "three", "--template", "web", "--env", "GREETING=own"]);
        assert_eq!(
            sh(here, "three", "python3 main.py; echo $GREETING; cat ~/marker"),
            format!("new\nown\n{marker}")
        );
        said(here, &["create", "old", "--template", "web@1"]);
        assert_eq!(sh(here, "old", "python3 main.py"), "3\n");
        // With everything done anew the marker is another one.
        assert_eq!(said(here, &["template", "build", "build", "--no-cache"]), "web@4\n");
        said(here, &["create", "four", "--template", "web"]);
        assert_ne!(sh(here, "four", "cat ~/marker"), marker);

        let listed = said(here, &["template", "list"]);
        let words: Vec<&str> = listed.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(words[..3], ["web", "4", "4"], "{listed}");
        assert_eq!(said(here, &["snapshot", "list", "-q"]), "");
        said(here, &["template", "delete", "web@4"]);
        assert_eq!(sh(here, "four", "python3 main.py"), "new\n");
        said(here, &["template", "delete", "web"]);
        let gone = ask(here, &["create", "five", "--template", "web"]);
        assert_eq!(gone.code(), Some(1), "{}", gone.text());
        assert!(gone.stderr().contains("there is no template web"), "{}", gone.stderr());
        said(here, &["stop", "one"]);
        said(here, &["start", "one"]);
        assert_eq!(sh(here, "one", "python3 main.py"), "3\n");
    });
}

#[test]
fn what_is_wrong_is_told_and_makes_no_version() {
    each(|here| {
        let _served = Served::start(here, &[]);
        here.write("t.toml", "nmae = 'web'\n");
        let wrong = ask(here, &["template", "build", "t.toml"]);
        assert_eq!(wrong.code(), Some(125), "{}", wrong.text());
        assert!(wrong.stderr().contains("line 1: unknown key \"nmae\""), "{}", wrong.stderr());
        let step = "name = 'web'\n[[steps]]\nrun = 'echo gone; echo why >&2; exit 7'\n";
        here.write("t.toml", step);
        let failed = ask(here, &["template", "build", "t.toml"]);
        assert_eq!(failed.code(), Some(1), "{}", failed.text());
        for text in ["gone\n", "why\n", "the command of step 1 ended with 7"] {
            assert!(failed.stderr().contains(text), "{text}: {}", failed.stderr());
        }
        here.write("t.toml", "name = 'web'\n[start]\nshell = 'echo bad; exit 3'\nready = { port = 8133 }\nready_timeout = '3s'\n");
        let failed = ask(here, &["template", "build", "t.toml"]);
        assert_eq!(failed.code(), Some(1), "{}", failed.text());
        assert!(failed.stderr().contains("the start command is not ready"), "{}", failed.stderr());
        here.write(
            "t.toml",
            "name = 'web'\n[[steps]]\ncopy = { from = 'link', to = '/home/user' }\n",
        );
        std::os::unix::fs::symlink("/etc/passwd", here.root().join("link")).unwrap();
        let outside = ask(here, &["template", "build", "t.toml"]);
        assert_eq!(outside.code(), Some(125), "{}", outside.text());
        assert!(outside.stderr().contains("leads out of the directory"), "{}", outside.stderr());
        assert_eq!(said(here, &["template", "list"]).lines().count(), 1);
        // No sandbox is left of all that.
        assert_eq!(objects(here, &["list", "--json"]), [] as [serde_json::Value; 0]);
        let builds = objects(here, &["template", "builds", "web", "--json"]);
        assert!(builds.iter().all(|build| build["state"] == "failed"), "{builds:?}");
        assert_eq!((builds.len(), &builds[1]["reason"]["exit_code"]), (2, &7.into()));
        // What a build has said can be read afterwards.
        let id = builds[1]["id"].as_str().unwrap();
        let log = ask(here, &["template", "logs", id]);
        assert_eq!(log.code(), Some(1), "{}", log.text());
        assert!(log.stderr().contains("why\n"), "{}", log.stderr());
    });
}

#[test]
fn a_build_goes_on_by_itself_and_is_cancelled() {
    each(|here| {
        let _served = Served::start(here, &[]);
        here.write(
            "t.toml",
            "name = 'web'\n[[steps]]\nrun = 'true'\n[[steps]]\nrun = 'echo waits; sleep 1000'\n",
        );
        let id = said(here, &["template", "build", "t.toml", "--detach"]).trim().to_owned();
        assert!(id.starts_with("bld_"), "{id}");
        atoll_testkit::process::wait_until("the second step", || {
            objects(here, &["template", "builds", "--json"])[0]["step"] == 2
        });
        let cancelled = objects(here, &["template", "cancel", &id, "--json"]);
        assert_eq!(cancelled[0]["state"], "cancelled", "{cancelled:?}");
        let log = ask(here, &["template", "logs", &id]);
        assert_eq!(log.code(), Some(1), "{}", log.text());
        assert!(log.stderr().contains("was cancelled"), "{}", log.stderr());
        assert_eq!(ask(here, &["template", "cancel", &id]).code(), Some(1));
        assert_eq!(objects(here, &["list", "--json"]), [] as [serde_json::Value; 0]);
    });
}
