//! Processes begin and end as without a sandbox, and none is left.

use super::{each, is_installed, left, marker};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};

/// A survivor with the word in its arguments.
fn survivor(marker: &str) -> String {
    format!("setsid sh -c 'sleep 1000; :' {marker} </dev/null >/dev/null 2>&1 &")
}

#[test]
fn what_outlives_the_command_is_killed_with_the_sandbox() {
    each(|project| {
        let marker = marker();
        let script = format!("({} sleep 0 & ) ; echo done", survivor(&marker));
        // The control: without a sandbox it goes on.
        assert_eq!(project.bare_sh(&script).stdout(), "done\n");
        // It leads a session, and so a group: on the way there other shells have the
        // word in their arguments.
        let leads = |pid: &i32| {
            Pid::from_raw(*pid).is_some_and(|pid| rustix::process::getpgid(Some(pid)) == Ok(pid))
        };
        for pid in left(&marker, |found| !found.is_empty() && found.iter().all(leads)) {
            kill_process_group(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        }
        left(&marker, <[i32]>::is_empty);
        let run = project.run_sh(&[], &script);
        assert_eq!(run.stdout(), "done\n", "{}", run.text());
        left(&marker, <[i32]>::is_empty);
    });
}

#[test]
fn a_background_child_with_the_output_open_does_not_keep_the_launcher() {
    each(|project| {
        let run = project.run_sh(&[], "sleep 1000 & echo done; exit 3");
        assert_eq!((run.code(), run.stdout().as_str()), (Some(3), "done\n"));
    });
}

/// Starts a command that says "ready" and stays, with the word in its arguments.
fn start(project: &atoll_testkit::run::Project, flags: &[&str], marker: &str) -> Child {
    let script = format!("{} echo ready; sleep 1000; :", survivor(marker));
    let mut command = project.atoll(&["run"]);
    command.args(flags).args(["--", "sh", "-c", &script, marker]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

/// The names in the directories where something could be left.
fn traces(project: &atoll_testkit::run::Project) -> Vec<String> {
    let listing = project.bare_sh("find .. | sort").stdout();
    let base = project.root().parent().unwrap().display().to_string();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let ours = mounts.lines().filter(|line| line.contains(&base)).map(str::to_owned);
    listing.lines().map(str::to_owned).chain(ours).collect()
}

/// Control groups of a launcher, in every tree.
fn groups(launcher: u32) -> Vec<String> {
    let found = std::process::Command::new("find")
        .args(["/sys/fs/cgroup", "-name", &format!("atoll-run-{launcher}-*")])
        .output()
        .unwrap();
    String::from_utf8_lossy(&found.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn a_killed_launcher_leaves_nothing() {
    each(|project| {
        // The first run makes the caches.
        assert_eq!(project.run_sh(&[], "true").code(), Some(0));
        let before = traces(project);
        for flags in [&[][..], &["--memory", "512MiB", "--pids", "100"]] {
            let marker = marker();
            let mut child = start(project, flags, &marker);
            let launcher = child.id();
            let is_root = project.user == atoll_testkit::run::User::Root;
            let has_group = !groups(launcher).is_empty();
            assert!(has_group || flags.is_empty() || !is_root, "no control group to look for");
            child.kill().unwrap();
            child.wait().unwrap();
            left(&marker, <[i32]>::is_empty);
            super::wait_until("the control group's end", || groups(launcher).is_empty());
            assert_eq!(traces(project), before);
        }
    });
}

#[test]
fn a_terminated_launcher_ends_like_its_command_and_leaves_nothing() {
    each(|project| {
        assert_eq!(project.run_sh(&[], "true").code(), Some(0));
        let before = traces(project);
        for (signal, status) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131)] {
            let marker = marker();
            let mut child = start(project, &["--memory", "512MiB"], &marker);
            kill_process(Pid::from_child(&child), signal).unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(status));
            left(&marker, <[i32]>::is_empty);
            assert_eq!(groups(child.id()), [""; 0]);
            assert_eq!(traces(project), before);
        }
    });
}

#[test]
fn signals_reach_the_command_once_and_it_may_go_on() {
    let script = "n=0; trap 'n=$((n+1)); echo got' TERM HUP QUIT USR1 INT
        echo ready; while [ $n -lt 1 ]; do sleep 0.05; done; sleep 0.2; echo $n; exit 5";
    each(|project| {
        for signal in [Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::INT] {
            let mut command = project.atoll(&["run", "--", "sh", "-c", script]);
            let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
            let mut stdout = BufReader::new(child.stdout.take().unwrap());
            let mut text = String::new();
            stdout.read_line(&mut text).unwrap();
            kill_process(Pid::from_child(&child), signal).unwrap();
            stdout.read_to_string(&mut text).unwrap();
            assert_eq!(text, "ready\ngot\n1\n", "{signal:?}");
            assert_eq!(child.wait().unwrap().code(), Some(5));
        }
    });
}

#[test]
fn thousands_of_orphans_leave_no_zombie() {
    let script = r#"python3 -c '
import glob, os, time
def zombies():
    states = []
    for name in glob.glob("/proc/[0-9]*/stat"):
        try: states.append(open(name).read().rsplit(")", 1)[1].split()[0])
        except OSError: pass
    return states.count("Z")
def spawn():
    pid = os.fork()
    if pid == 0:
        for _ in range(100):
            if os.fork() == 0: os._exit(0)
        os._exit(0)
    os.waitpid(pid, 0)
for _ in range(50): spawn()
def are_gone(): return len(glob.glob("/proc/[0-9]*")) < 10
until = time.monotonic() + 20
while True:
    found = (zombies(), are_gone())
    if found == (0, True) or time.monotonic() > until: break
    time.sleep(0.01)
print(*found)'"#;
    each(|project| {
        let run = project.run_sh(&[], script);
        assert_eq!(run.stdout(), "0 True\n", "{}", run.text());
    });
}

#[test]
fn every_shell_ends_as_it_does_outside() {
    let scripts = [
        "false",
        "exit 3",
        "no-such-program",
        "./not-executable",
        "sh -c 'kill -9 $$'",
        "sh -c 'kill -SEGV $$'",
        "false | true",
        "set -e; false; true",
        "trap 'exit 9' EXIT; exit 1",
        "kill -TERM $$",
    ];
    for shell in ["dash", "bash", "zsh"] {
        if !is_installed(shell, &format!("shell-{shell}")) {
            continue;
        }
        each(|project| {
            project.write("not-executable", "");
            for script in scripts {
                // A signal's end is seen by the shell around it.
                let around = "\"$0\" -c \"$1\"; echo \"status $?\"";
                let bare = project.bare("sh").args(["-c", around, shell, script]).output().unwrap();
                let around = "\"$2\" run -- \"$0\" -c \"$1\"; echo \"status $?\"";
                let mut command = project.bare("sh");
                command.args(["-c", around, shell, script]).arg(project.program());
                let run = command.output().unwrap();
                assert_eq!(
                    String::from_utf8_lossy(&run.stdout),
                    String::from_utf8_lossy(&bare.stdout),
                    "{shell} {script}"
                );
            }
        });
    }
}
