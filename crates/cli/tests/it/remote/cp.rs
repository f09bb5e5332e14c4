//! `atoll cp`: what comes out is what went in.

use super::{Served, ask, command, each, said};
use atoll_testkit::run::{Project, Ran};
use std::fs::{File, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Stdio;

fn with_sandbox(test: impl Fn(&Project, &mut Served<'_>)) {
    each(|project| {
        let mut served = Served::start(project, &[]);
        said(project, &["create", "web"]);
        test(project, &mut served);
    });
}

fn sh(project: &Project, script: &str) -> String {
    said(project, &["exec", "web", "--", "sh", "-c", script])
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_file_goes_in_and_comes_out_with_its_mode() {
    with_sandbox(|project, _| {
        let mut random = vec![0; 3_000_000];
        File::open("/dev/urandom").unwrap().read_exact(&mut random).unwrap();
        let path = project.write("tool", &random);
        std::fs::set_permissions(&path, Permissions::from_mode(0o750)).unwrap();
        assert_eq!(said(project, &["cp", "tool", "web:"]), "");
        assert_eq!(said(project, &["cp", "tool", "web:other"]), "");
        assert_eq!(sh(project, "stat -c %a:%s tool other"), "750:3000000\n750:3000000\n");
        // One that is there gets the mode too.
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        said(project, &["cp", "tool", "web:/home/user/other"]);
        assert_eq!(sh(project, "stat -c %a other"), "600\n");

        said(project, &["cp", "web:tool", "back"]);
        assert!(std::fs::read(project.root().join("back")).unwrap() == random);
        assert_eq!(mode(&project.root().join("back")), 0o750);
        std::fs::create_dir(project.root().join("there")).unwrap();
        project.user.give(&project.root());
        let copied = super::objects(project, &["cp", "--json", "web:/home/user/tool", "there"]);
        assert_eq!((&copied[0]["entries"], &copied[0]["bytes"]), (&1.into(), &3_000_000.into()));
        assert!(std::fs::read(project.root().join("there/tool")).unwrap() == random);
    });
}

#[test]
fn streams_are_copied_as_they_come() {
    with_sandbox(|project, _| {
        let path = project.write("text", b"a\0\xff\n".repeat(100_000));
        let mut up = command(project, &["cp", "-", "web:text"]);
        assert!(up.stdin(File::open(&path).unwrap()).status().unwrap().success());
        let down = ask(project, &["cp", "web:text", "-"]);
        assert!(down.0.stdout == std::fs::read(&path).unwrap(), "{}", down.stderr());
        // A directory is an archive there.
        sh(project, "mkdir -p d/e; echo one > d/e/f");
        let mut down = command(project, &["cp", "web:d", "-"]);
        let mut child = down.stdout(Stdio::piped()).spawn().unwrap();
        let archive = child.stdout.take().unwrap();
        let mut up = command(project, &["cp", "--archive", "-", "web:copy"]);
        let ran = Ran(up.stdin(archive).output().unwrap());
        assert_eq!(ran.code(), Some(0), "{}", ran.text());
        assert!(child.wait().unwrap().success());
        assert_eq!(sh(project, "cat copy/e/f"), "one\n");
    });
}

#[test]
fn a_directory_goes_in_and_comes_out() {
    with_sandbox(|project, _| {
        project.write("tree/a/deep/file", "deep\n");
        let script = project.write("tree/run.sh", "#!/bin/sh\n");
        std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
        let long = "n".repeat(200);
        project.write(&format!("tree/{long}/{long}"), "long\n");
        symlink("a/deep", project.root().join("tree/link")).unwrap();
        project.user.give(&project.root());
        // As another name, below a directory that is there, and its content alone.
        said(project, &["cp", "tree", "web:new"]);
        said(project, &["cp", "tree", "web:"]);
        said(project, &["cp", "tree/.", "web:new/content"]);
        let look = "cat new/a/deep/file tree/link/file new/content/link/file
                    stat -c %a tree/run.sh; readlink tree/link";
        assert_eq!(sh(project, look), "deep\ndeep\ndeep\n755\na/deep\n");

        said(project, &["cp", "web:tree", "out"]);
        let out = project.root().join("out");
        assert_eq!(project.read("out/a/deep/file"), "deep\n");
        assert_eq!(project.read(&format!("out/{long}/{long}")), "long\n");
        assert_eq!(std::fs::read_link(out.join("link")).unwrap(), Path::new("a/deep"));
        assert_eq!(mode(&out.join("run.sh")), 0o755);
        // Once more into what is there: below it, and its content over it.
        said(project, &["cp", "web:tree", "out"]);
        assert_eq!(project.read("out/tree/link/file"), "deep\n");
        sh(project, "echo newer > tree/a/deep/file");
        said(project, &["cp", "web:tree/.", "out"]);
        assert_eq!(project.read("out/a/deep/file"), "newer\n");
        let same = project.bare_sh("diff -r tree out/tree");
        assert_eq!(same.code(), Some(0), "{}", same.text());
    });
}

#[test]
fn what_cannot_be_copied_is_told() {
    with_sandbox(|project, _| {
        project.write("d/file", "x");
        assert_eq!(project.bare_sh("mkfifo d/pipe").code(), Some(0));
        let left = ask(project, &["cp", "d", "web:d"]);
        assert_eq!(left.code(), Some(0), "{}", left.text());
        assert!(
            left.stderr().contains("1 names were left out") && left.stderr().contains("\n  pipe\n"),
            "{}",
            left.text()
        );
        sh(project, "mkfifo d/inside");
        let left = ask(project, &["cp", "web:d", "back"]);
        assert!(left.stderr().contains("1 names were left out"), "{}", left.text());

        for (arguments, code, what) in [
            (&["cp", "a", "b"][..], 2, "neither side is in a sandbox"),
            (&["cp", "web:a", "web:b"], 2, "both sides are in sandboxes"),
            (&["cp", "--archive", "d/file", "web:b"], 2, "--archive"),
            (&["cp", "nothing", "web:"], 125, "cannot read nothing"),
            (&["cp", "web:nothing", "."], 1, "(not_found)"),
            (&["cp", "nobody:a", "."], 1, "(not_found)"),
            (&["cp", "web:d/file", "no/such/place"], 125, "cannot write"),
            (&["cp", "d/file", "web:no/such/place"], 1, "(not_found)"),
            (&["cp", "d/file", "web:none/"], 125, "is no directory of the sandbox"),
            (&["cp", "d", "web:d/file"], 125, "is a directory, and"),
            (&["cp", "web:d/file/", "."], 1, "("),
        ] {
            let ran = ask(project, arguments);
            assert_eq!(ran.code(), Some(code), "{arguments:?}: {}", ran.text());
            assert!(ran.stderr().contains(what), "{arguments:?}: {}", ran.text());
        }
        // Nothing half is left where something would have been.
        let names = project.bare_sh("ls -A");
        assert_eq!(names.stdout(), "back\nd\n");
    });
}
