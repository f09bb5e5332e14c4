//! The command on a terminal: a smaller set than that of the supervisor alone,
//! through the whole program.

use super::{each, is_installed};
use atoll_testkit::pty::Pty;
use atoll_testkit::run::Project;
use std::process::{Command, Stdio};

/// A command of `atoll run` on a terminal.
fn start(project: &Project, script: &str) -> Pty {
    let mut command = project.atoll(&["run", "--", "sh", "-c", script]);
    Pty::spawn(command.env("TERM", "xterm")).unwrap()
}

/// A shell on a terminal, with `$L` for the program.
fn shell(project: &Project) -> Pty {
    let mut shell: Command = project.bare("bash");
    shell.args(["--norc", "--noprofile", "-i"]).env("L", project.program());
    shell.env("PS1", "ready> ").env("TERM", "xterm");
    let mut pty = Pty::spawn(&mut shell).unwrap();
    pty.expect("ready> ").unwrap();
    // What is typed must not be mistaken for what is printed.
    pty.send("stty -echo; bind 'set enable-bracketed-paste off'\r").unwrap();
    pty.expect("ready> ").unwrap();
    pty
}

#[test]
fn the_command_has_a_terminal_of_the_same_size_and_hears_of_a_change() {
    each(|project| {
        let script = "test -t 0 && test -t 1 && test -t 2 && tty; stty size
            trap 'stty size; exit 7' WINCH; echo ready; while :; do sleep 0.05; done";
        let mut pty = start(project, script);
        pty.expect("/dev/pts/0\r\n24 80\r\nready").unwrap();
        pty.resize(50, 132).unwrap();
        pty.expect("50 132").unwrap();
        assert_eq!(pty.wait().unwrap().code(), Some(7));
        assert_eq!(format!("{:?}", pty.modes().unwrap()), format!("{:?}", pty.first_modes()));
    });
}

#[test]
fn ctrl_c_arrives_once_each_time_and_ends_who_does_not_mind_it() {
    each(|project| {
        let script = "n=0; trap 'n=$((n+1)); echo got $n' INT; echo ready
            while [ $n -lt 2 ]; do sleep 0.05; done; trap - INT; echo now; exec sleep 1000";
        let mut pty = start(project, script);
        pty.expect("ready").unwrap();
        pty.send("\x03").unwrap();
        pty.expect("got 1").unwrap();
        pty.send("\x03").unwrap();
        pty.expect("got 2").unwrap();
        pty.expect("now").unwrap();
        pty.send("\x03").unwrap();
        let status = pty.wait().unwrap();
        use std::os::unix::process::ExitStatusExt as _;
        // The launcher dies of it too, so that a shell's loop ends.
        assert_eq!((status.code(), status.signal()), (None, Some(2)));
        assert!(!pty.unseen().contains("got"));
    });
}

#[test]
fn ctrl_z_stops_and_fg_continues() {
    each(|project| {
        let mut pty = shell(project);
        pty.send("$L run -- sh -c 'echo one; read x; echo two $x'\r").unwrap();
        pty.expect("one").unwrap();
        pty.send("\x1a").unwrap();
        pty.expect("Stopped").unwrap();
        pty.expect("ready> ").unwrap();
        pty.send("fg\r").unwrap();
        pty.expect("run").unwrap();
        pty.send("word\r").unwrap();
        pty.expect("two word").unwrap();
        pty.expect("ready> ").unwrap();
        pty.send("exit\r").unwrap();
        assert!(pty.wait().unwrap().success());
    });
}

/// What is on the screen, and which keys are pressed then.
type Keys = &'static [(&'static str, &'static str)];

#[test]
fn programs_that_own_the_screen_work() {
    let programs: [(&str, &str, Keys); 3] = [
        ("less", "seq 1000 > numbers; less numbers", &[("23", "G"), ("1000", "q")]),
        ("vim", "vim -u NONE file", &[("file", "ihello\x1b:wq\r")]),
        (
            "tmux",
            "tmux -f /dev/null new-session sh",
            &[("\u{1b}[?", "echo in-$((6*7))\r"), ("in-42", "exit\r")],
        ),
    ];
    for (program, script, keys) in programs {
        if !is_installed(program, &format!("terminal-{program}")) {
            continue;
        }
        each(|project| {
            let mut pty = start(project, script);
            for (seen, send) in keys {
                pty.expect(seen).unwrap();
                pty.send(send).unwrap();
            }
            assert!(pty.wait().unwrap().success(), "{program}: {:?}", pty.unseen());
            assert_eq!(format!("{:?}", pty.modes().unwrap()), format!("{:?}", pty.first_modes()));
            if program == "vim" {
                assert_eq!(project.read("file"), "hello\n");
            }
        });
    }
}

#[test]
fn an_interactive_shell_inside_has_job_control() {
    each(|project| {
        let mut pty = start(project, "PS1='in> ' exec bash --norc --noprofile -i");
        pty.expect("in> ").unwrap();
        pty.send("sh -c 'echo $((40+2)); exec sleep 1000'\r").unwrap();
        pty.expect("42").unwrap();
        pty.send("\x1a").unwrap();
        pty.expect("Stopped").unwrap();
        pty.send("kill %1; fg; exit 4\r").unwrap();
        assert_eq!(pty.wait().unwrap().code(), Some(4));
        assert!(!String::from_utf8_lossy(pty.screen()).contains("no job control"));
    });
}

/// Says when it has the terminal: before that, keys are the shell's.
const JOB: &str = "
import os, signal, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
while os.tcgetpgrp(0) != os.getpgrp(): time.sleep(0.01)
print('job-begins', flush=True)
print('job-read', os.read(0, 99), flush=True)
while True: time.sleep(100)
";

/// It puts each command into a group of its own and asks the terminal a lot.
#[test]
fn fish_has_job_control_and_the_size_of_the_window() {
    if !is_installed("fish", "terminal-fish") {
        return;
    }
    each(|project| {
        project.write("job", JOB);
        let mut pty = start(project, "exec fish --no-config --private");
        // The sign at the end of the prompt is another for root.
        pty.expect("@atoll").unwrap();
        pty.send("echo in-(math 6 x 7); stty size\r").unwrap();
        pty.expect("in-42").unwrap();
        pty.expect("24 80").unwrap();
        pty.resize(50, 132).unwrap();
        pty.send("stty size\r").unwrap();
        pty.expect("50 132").unwrap();
        pty.send("python3 job\r").unwrap();
        pty.expect("job-begins").unwrap();
        pty.send("\x1a").unwrap();
        pty.expect("stopped").unwrap();
        pty.send("fg\r").unwrap();
        pty.send("word\r").unwrap();
        pty.expect("job-read b'word").unwrap();
        pty.send("\x03").unwrap();
        pty.expect("@atoll").unwrap();
        pty.send("echo after-(math 6 x 8)\r").unwrap();
        pty.expect("after-48").unwrap();
        pty.send("exit 4\r").unwrap();
        assert_eq!(pty.wait().unwrap().code(), Some(4));
        assert_eq!(format!("{:?}", pty.modes().unwrap()), format!("{:?}", pty.first_modes()));
    });
}

#[test]
fn stdin_is_what_it_was() {
    // Which kind of file it is, and what can be read from it.
    let script = "stat -Lc %F /proc/self/fd/0 2>/dev/null || echo closed; cat; echo end";
    each(|project| {
        let around = |redirection: &str| {
            let line = |program: &str| {
                let quoted = script.replace('\'', "'\\''");
                format!("{program} sh -c '{quoted}' {redirection}")
            };
            let bare = project.bare_sh(&line(""));
            let run = project.bare_sh(&line(&format!("{} run --", project.program().display())));
            assert_eq!(run.stdout(), bare.stdout(), "{redirection} {}", run.text());
            run.stdout()
        };
        assert_eq!(around("</dev/null"), "character special file\nend\n");
        assert!(around("<&-").starts_with("closed\n"));
        let file = project.write("input", "from a file\n");
        assert_eq!(around(&format!("<{}", file.display())), "regular file\nfrom a file\nend\n");
        let piped = project.bare_sh(&format!(
            "echo piped | {} run -- sh -c '{script}'",
            project.program().display()
        ));
        assert_eq!(piped.stdout(), "fifo\npiped\nend\n", "{}", piped.text());
    });
}

/// A number that is free must not go to a descriptor of the sandbox's own, such as
/// the one that answers the command's calls.
#[test]
fn closed_streams_stay_closed_and_give_nothing_away() {
    each(|project| {
        let program = project.program().display().to_string();
        for closed in ["<&-", ">&-", "2>&-", "<&- 2>&-", "<&- >&- 2>&-"] {
            let inside = "{ ls -l /proc/self/fd; : > made && rm made && echo made; } > out 2>&1";
            let script = format!("{program} run -- sh -c '{inside}' {closed}");
            let run = project.bare_sh(&script);
            assert_eq!(run.code(), Some(0), "{closed} {}", run.text());
            let listing = project.read("out");
            assert!(listing.ends_with("made\n"), "{closed} {listing}");
            for line in listing.lines().filter(|line| line.contains(" -> ")) {
                let known = ["/out", "/proc/", "pipe:", "/dev/null"];
                assert!(known.iter().any(|it| line.contains(it)), "{closed} {listing}");
            }
        }
    });
}

/// A command that reads nothing leaves the input to whoever comes next.
#[test]
fn input_that_the_command_does_not_read_is_not_eaten() {
    each(|project| {
        let program = project.program().display().to_string();
        let script = format!("printf 'one\\ntwo\\n' | ({program} run -- true; cat)");
        assert_eq!(project.bare_sh(&script).stdout(), "one\ntwo\n");
        let mut child = project.bare(&program);
        child.args(["run", "--", "sh", "-c", "echo done"]).stdin(Stdio::piped());
        // An input that stays open does not keep it.
        let mut child = child.stdout(Stdio::null()).spawn().unwrap();
        assert!(child.wait().unwrap().success());
    });
}
