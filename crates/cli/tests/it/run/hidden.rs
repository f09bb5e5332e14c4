//! Files of the project that the user hides: nobody inside reads them, however it
//! is tried, and a person learns of it.

use super::each;
use atoll_testkit::pty::Pty;
use atoll_testkit::run::{Project, Ran};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

const SECRET: &str = "sesame-opens";

const MODES: [&str; 2] = ["live", "review"];

/// A repository whose `.env` is hidden, tracked and in a commit.
fn lay_out(project: &Project) {
    project.write(".env", format!("TOKEN={SECRET}\n"));
    project.write("keys/a.pem", SECRET);
    project.write(".aiignore", ".env\nkeys/\n");
    let script = "git init -q . && git add -f . && \
                  git -c user.name=t -c user.email=t@example.org commit -qm all";
    assert_eq!(project.bare_sh(script).code(), Some(0));
}

/// Ways to read `.env` and `keys/a.pem`, each a line of shell that prints it.
const READERS: [&str; 25] = [
    "cat .env",
    "cat < .env",
    "head -c 99 ./././.env",
    "cat keys/a.pem",
    "cat keys/../.env",
    "cd keys && cat a.pem",
    "cat $PWD/.env",
    "cat /proc/self/root$PWD/.env",
    "cat /proc/self/cwd/.env",
    "cat /proc/thread-self/cwd/keys/a.pem",
    "python3 -c 'print(open(\".env\").read())'",
    "python3 -c 'import mmap, os; print(mmap.mmap(os.open(\".env\", 0), 0, prot=1)[:])'",
    "python3 -c 'import os; n = os.open(\".env\", os.O_PATH); print(open(f\"/proc/self/fd/{n}\").read())'",
    "perl -pe 1 .env",
    "grep -r sesame .",
    "if command -v rg; then rg -uu sesame; else grep -r sesame keys; fi",
    "tar cf - .env keys",
    "cp .env copy && cat copy",
    "ln .env hard && cat hard",
    "ln -s .env soft && cat soft",
    "mv .env moved && cat moved",
    "dd if=.env",
    "sh -x ./.env",
    "git grep --no-index sesame",
    "chmod 777 .env keys; cat .env keys/a.pem",
];

#[test]
fn no_tool_reads_them_in_a_live_project() {
    no_tool_reads_them("live");
}

#[test]
fn no_tool_reads_them_under_review() {
    no_tool_reads_them("review");
}

fn no_tool_reads_them(mode: &str) {
    each(|project| {
        lay_out(project);
        // The control: in a copy of the project, outside.
        let copy = project.outside().join("copy");
        let control: String = READERS
            .iter()
            .map(|reader| {
                let fresh = format!("rm -rf {copy:?}; cp -a . {copy:?}");
                format!("{fresh}; (cd {copy:?}; {reader}) 2>&1 | grep -aq sesame; echo $?\n")
            })
            .collect();
        let control = project.bare_sh(&control);
        let worked: Vec<bool> = control.stdout().lines().map(|line| line == "0").collect();
        assert_eq!(worked, vec![true; READERS.len()], "{}", control.text());
        let tries: String = READERS
            .iter()
            .enumerate()
            .map(|(number, reader)| {
                format!(
                    "if ( {reader} ) 2>&1 | grep -aq 'sesame'; then echo {number}; fi\n\
                         rm -f copy hard soft moved\n"
                )
            })
            .collect();
        let run = project.run_sh(&["--workspace", mode], &tries);
        let read: Vec<&str> =
            run.stdout().lines().map(|line| READERS[line.parse::<usize>().unwrap()]).collect();
        assert!(read.is_empty(), "{mode}: {read:?}\n{}", run.text());
        assert_eq!(project.read(".env"), format!("TOKEN={SECRET}\n"));
    });
}

#[test]
fn what_git_keeps_in_its_objects_is_out_of_reach_of_paths() {
    each(|project| {
        lay_out(project);
        for mode in MODES {
            let run = project.run_sh(&["--workspace", mode], "git show :.env; git show HEAD:.env");
            assert_eq!(run.stdout().matches(SECRET).count(), 2, "{mode}: {}", run.text());
        }
    });
}

#[test]
fn git_works_around_them_and_nothing_is_staged_by_it() {
    each(|project| {
        lay_out(project);
        for mode in MODES {
            let script = format!(
                "echo x > {mode} && git add {mode} && \
                 git -c user.name=t -c user.email=t@example.org commit -qm x >/dev/null && \
                 git show --stat HEAD"
            );
            let run = project.run_sh(&["--workspace", mode], &script);
            assert_eq!(run.code(), Some(0), "{mode}: {}", run.text());
            assert!(run.stdout().contains("1 file changed"), "{mode}: {}", run.text());
        }
    });
}

/// Patterns and names in the grammar of gitignore(5), where readers of it differ.
const GRAMMAR: &[u8] =
    b"\xef\xbb\xbffirst\n/*.top\n!keep.top\n**/deep/*.k\ndir/\n\\#sharp\n\\!bang\n\
    crlf\r\ntrail\\ \nspaces   \na/**/z\n[a-c]set\nUPPER\n!dir/inside\n/src/*\n!/src/ok/\n";

const NAMES: [&str; 26] = [
    "first",
    "sub/first",
    "x.top",
    "keep.top",
    "sub/x.top",
    "deep/a.k",
    "s/deep/a.k",
    "s/deep/t/a.k",
    "dir/inside",
    "s/dir/x",
    "s/file/dir",
    "#sharp",
    "!bang",
    "crlf",
    "trail ",
    "trail",
    "spaces",
    "a/z",
    "a/b/c/z",
    "aset",
    "dset",
    "upper",
    "UPPER",
    "src/gone",
    "src/ok/kept",
    "plain",
];

#[test]
fn the_grammar_is_gits_down_to_what_can_be_read() {
    each(|project| {
        for name in NAMES {
            project.write(&format!("w/{name}"), "text");
        }
        project.write("w/.aiignore", GRAMMAR);
        project.write("w/s/.aiignore", "!first\nown\n");
        project.write("w/s/own", "text");
        // The same rules as git's own, in a copy.
        let control = "git init -q . && cp -r w g && mv g/.aiignore g/.gitignore && \
             mv g/s/.aiignore g/s/.gitignore && cd g && \
             find . -type f ! -name .gitignore | cut -c3- | sort | \
             while IFS= read -r f; do git check-ignore -q --no-index -- \"$f\" || echo \"$f\"; done; \
             rm -rf ../.git";
        let visible = project.bare_sh(control);
        assert!(visible.stdout().contains("plain"), "{}", visible.text());
        assert!(!visible.stdout().contains("first"), "{}", visible.text());
        let script = "find . -type f ! -name .aiignore 2>/dev/null | cut -c3- | sort | \
             while IFS= read -r f; do cat -- \"$f\" >/dev/null 2>&1 && echo \"$f\"; done; true";
        for mode in MODES {
            let mut run = project.atoll(&["run", "--workspace", mode, "--"]);
            run.args(["sh", "-c", script]).current_dir(project.root().join("w"));
            let run = Ran(run.output().unwrap());
            assert_eq!(run.stdout(), visible.stdout(), "{mode}: {}", run.text());
        }
    });
}

#[test]
fn who_fails_learns_that_something_is_hidden() {
    each(|project| {
        lay_out(project);
        for mode in MODES {
            let flags = ["--workspace", mode];
            let failed = project.run_sh(&flags, "cat .env 2>/dev/null").stderr();
            assert_eq!(failed.matches("atoll: hidden").count(), 1, "{mode}: {failed}");
            assert!(failed.contains(".env, keys/"), "{mode}: {failed}");
            assert_eq!(project.run_sh(&flags, "true").stderr(), "");
            let json = project.run_sh(&["--workspace", mode, "--json"], "true").json();
            assert_eq!(json["hidden"], serde_json::json!([".env", "keys/"]));
        }
        std::fs::remove_file(project.root().join(".aiignore")).unwrap();
        assert_eq!(project.run_sh(&[], "false").stderr(), "", "control");
    });
}

#[test]
fn warnings_come_before_the_command() {
    each(|project| {
        lay_out(project);
        let run = project.run_sh(&[], "echo command >&2");
        assert_eq!(run.stderr(), "command\n", "control");
        std::fs::hard_link(project.root().join(".env"), project.root().join("twin")).unwrap();
        let run = project.run_sh(&[], "echo command >&2; cat twin");
        let lines: Vec<String> = run.stderr().lines().map(str::to_owned).collect();
        assert!(lines[0].starts_with("warning: .env is hidden, but the file has other names"));
        assert_eq!(lines[1..], ["command"], "{}", run.text());
        assert!(run.stdout().contains(SECRET), "and so it can be: {}", run.text());
        let json = project.run_sh(&["--json"], "echo command >&2");
        assert!(json.stderr().starts_with("command\n"), "{}", json.text());
        assert!(json.json()["warnings"][0].as_str().unwrap().contains("hard links"));
    });
}

/// Starts a command that waits for a line, has the host make and replace hidden
/// files as editors do, and gives how it went on.
fn while_the_host_works(project: &Project, flags: &[&str], script: &str) -> Ran {
    let script = format!("echo ready; read line; {script}; true");
    let mut command = project.atoll(&["run", "--json"]);
    command.args(flags).args(["--", "sh", "-c", &script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let work = "echo new-sesame > n && mv n .env && mv keys old && mkdir keys late && \
                echo new-sesame > keys/a.pem && echo late-sesame > late/.env";
    let work = project.bare_sh(work);
    assert_eq!(work.code(), Some(0), "{}", work.text());
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).unwrap();
    let mut output = child.wait_with_output().unwrap();
    output.stdout = rest;
    Ran(output)
}

#[test]
fn strict_mode_hides_what_the_host_makes_anew() {
    each(|project| {
        lay_out(project);
        let script = "cat .env /proc/self/cwd/keys/a.pem late/.env";
        let run = while_the_host_works(project, &["--strict-ignore"], script);
        assert!(!run.stdout().contains("sesame"), "{}", run.text());
        let denials = run.json()["denials"].to_string();
        for path in ["/.env", "/keys/a.pem", "/late/.env"] {
            assert!(denials.contains(&format!("project{path}")), "{path}: {denials}");
        }
    });
}

#[test]
fn under_review_what_the_host_saves_anew_stays_hidden() {
    each(|project| {
        lay_out(project);
        let script = "cat .env keys/a.pem";
        let run = while_the_host_works(project, &["--workspace", "review"], script);
        assert!(!run.stdout().contains("sesame"), "{}", run.text());
    });
}

/// The limit that THREAT_MODEL.md tells of: without strict mode only what is there
/// at the start is hidden.
#[test]
fn what_the_host_makes_anew_under_a_new_name_is_seen_without_strict_mode() {
    for mode in MODES {
        each(|project| {
            lay_out(project);
            let run = while_the_host_works(project, &["--workspace", mode], "cat late/.env");
            assert!(run.stdout().contains("late-sesame"), "{mode}: {}", run.text());
        });
    }
}

#[test]
fn strict_mode_lets_ordinary_work_go_on() {
    each(|project| {
        lay_out(project);
        let script = "set -e; git status --short >/dev/null; echo x > x; git add x; \
             git -c user.name=t -c user.email=t@example.org commit -qm x; mkdir d; mv x d/; \
             python3 -c 'import json, subprocess; subprocess.run([\"ls\", \"-lR\", \"d\"], check=True)'; \
             ls -l /proc/self/fd >/dev/null; cat /proc/self/status | grep -c Name; \
             for i in 1 2 3 4 5 6 7 8 9 10; do echo $i | cat | cat; done | wc -l";
        let run = project.run_sh(&["--strict-ignore"], script);
        assert_eq!(run.code(), Some(0), "{}", run.text());
        assert!(run.stdout().ends_with("1\n10\n"), "{}", run.text());
        let stderr = run.stderr();
        let mut refused = stderr.lines().filter(|line| line.starts_with("atoll: refused"));
        assert!(refused.all(|line| line.contains("/keys: rule hidden")), "{}", run.text());
    });
}

#[test]
fn a_person_at_a_terminal_is_told_once_for_a_project() {
    each(|project| {
        lay_out(project);
        let screen = |arguments: &[&str]| {
            let mut command = project.atoll(&["run"]);
            command.args(arguments).args(["--", "echo", "done"]).env("GH_TOKEN", "gh-secret");
            let mut pty = Pty::spawn(&mut command).unwrap();
            pty.wait().unwrap();
            String::from_utf8_lossy(pty.screen()).into_owned()
        };
        let told = "atoll: kept outside in this project: 1 variable, 2 hidden paths; \
                    --verbose lists them (said once)\r\ndone";
        let first = screen(&[]);
        assert!(first.contains(told), "{first}");
        assert_eq!(screen(&[]), "done\r\n");
        let all = screen(&["--verbose"]);
        for part in ["GH_TOKEN", "hidden: .env, keys/"] {
            assert!(all.contains(part), "{all}");
        }
        assert!(!all.contains("gh-secret"), "{all}");
    });
}

#[test]
fn hiding_everything_leaves_a_place_to_work_in() {
    each(|project| {
        project.write("a", SECRET);
        let run = project.run_sh(&["--hide", "*"], "pwd; cat a; echo new > b; cat b");
        assert_eq!(run.stdout(), format!("{}\nnew\n", project.root().display()), "{}", run.text());
        assert_eq!(project.bare_sh("cat a b").stdout(), format!("{SECRET}new\n"));
        // What lies above the project is no matter of its rules.
        for pattern in ["/", ".", ".."] {
            let run = project.run_sh(&["--hide", pattern], "cat a");
            assert_eq!(run.stdout(), SECRET, "{}", run.text());
            assert!(run.stderr().contains("hides nothing"), "{pattern}: {}", run.text());
        }
    });
}
