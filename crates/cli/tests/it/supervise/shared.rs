//! A terminal that others in the pipeline use too, and outputs elsewhere.

use super::{each_user, shared_dir};
use std::io::Read as _;

const CTRL_C: &str = "\x03";

#[test]
fn output_into_a_pipe_is_exact_though_stdin_is_a_terminal() {
    each_user(|user| {
        let mut shell = user.shell();
        shell.send("$L -- printf 'a\\nb\\n' | od -An -c; echo end\r").unwrap();
        shell.expect("a  \\n   b  \\n").unwrap();
        shell.expect("end").unwrap();
        assert!(!String::from_utf8_lossy(shell.screen()).contains("\\r"));
    });
}

#[test]
fn keys_are_left_to_the_pager_behind() {
    each_user(|user| {
        let mut shell = user.shell();
        shell.send("$L -- seq 100000 | less; echo left\r").unwrap();
        shell.expect("20\r\n").unwrap();
        shell.send("G").unwrap();
        shell.expect("100000\r\n").unwrap();
        shell.send("q").unwrap();
        shell.expect("left").unwrap();
    });
}

#[test]
fn a_pager_inside_reads_keys_from_its_own_terminal() {
    each_user(|user| {
        let mut shell = user.shell();
        shell.send("seq 100000 | $L -- less; echo left\r").unwrap();
        shell.expect("20\r\n").unwrap();
        shell.send("G").unwrap();
        shell.expect("100000\r\n").unwrap();
        shell.send("q").unwrap();
        shell.expect("left").unwrap();
        shell.expect("ready> ").unwrap();
        shell.send("stty -a | grep -q ' icanon' && echo cooked\r").unwrap();
        shell.expect("cooked").unwrap();
    });
}

#[test]
fn the_command_gets_the_keys_once_it_reads_them() {
    each_user(|user| {
        let mut shell = user.shell();
        shell.send("$L -- sh -c 'read x; echo got $x' | tr a-z A-Z\r").unwrap();
        shell.wait_until("raw modes", |pty| pty.is_raw()).unwrap();
        shell.send("word\r").unwrap();
        shell.expect("GOT WORD\r\n").unwrap();
        shell.expect("ready> ").unwrap();
    });
}

#[test]
fn what_others_print_meanwhile_has_whole_line_ends() {
    each_user(|user| {
        let mut shell = user.shell();
        shell
            .send("$L -- sh -c 'read x; seq 3; seq 7 9 >/dev/tty; read x' | sed s/^/n/\r")
            .unwrap();
        shell.wait_until("raw modes", |pty| pty.is_raw()).unwrap();
        shell.send("\r").unwrap();
        shell
            .wait_until("both outputs, whole", |shell| {
                let unseen = shell.unseen();
                unseen.contains("n1\r\nn2\r\nn3\r\n") && unseen.contains("7\r\n8\r\n9\r\n")
            })
            .unwrap();
        shell.send("\r").unwrap();
        shell.expect("ready> ").unwrap();
    });
}

#[test]
fn ctrl_c_in_a_pipeline_arrives_once() {
    each_user(|user| {
        let mut shell = user.shell();
        shell
            .send(
                "cat /dev/zero | $L -- sh -c 'n=0; trap \"n=\\$((n+1)); echo int \\$n\" INT
                 echo started; while [ $n -lt 2 ]; do :; done'; echo end\r",
            )
            .unwrap();
        shell.expect("started").unwrap();
        shell.send(CTRL_C).unwrap();
        shell.expect("int 1\r\n").unwrap();
        shell.send(CTRL_C).unwrap();
        shell.expect("int 2\r\n").unwrap();
        shell.expect("ready> ").unwrap();
        assert!(!shell.unseen().contains("int 3"));
    });
}

// The command starts nothing here: between vfork and exec a shell cannot be
// stopped, with or without a launcher.
#[test]
fn ctrl_z_in_a_pipeline_stops_all_of_it() {
    each_user(|user| {
        let mut shell = user.shell();
        let script = "trap \"echo again\" CONT; echo started; while :; do read x; done";
        shell.send(format!("sleep 1000 | $L -- sh -c '{script}' | cat\r")).unwrap();
        shell.expect("started").unwrap();
        shell.send("\x1a").unwrap();
        shell.expect("Stopped").unwrap();
        shell.expect("ready> ").unwrap();
        shell.send("fg\r").unwrap();
        shell.expect("again\r\n").unwrap();
        shell.send(CTRL_C).unwrap();
        shell.expect("ready> ").unwrap();
    });
}

#[test]
fn the_commands_descriptors_are_none_of_the_users_terminals() {
    each_user(|user| {
        let mut shell = user.shell();
        // 0, 1 and 2 one by one onto a pipe; the others must be the command's own.
        for redirect in ["", "</dev/null", "| cat", "2>/dev/null", "</dev/null | cat"] {
            let script = "for n in 0 1 2; do test -t $n && stat -Lc same=%t:%T /dev/fd/$n >&2; done
                          echo checked >&2";
            shell.send(format!("$L -- sh -c '{script}' 2>&1 {redirect}\r")).unwrap();
            if redirect != "2>/dev/null" {
                shell.expect("checked").unwrap();
            }
            shell.expect("ready> ").unwrap();
        }
        let theirs = rustix::fs::fstat(shell.slave().unwrap()).unwrap().st_rdev;
        let ours = format!("same={:x}:{:x}", rustix::fs::major(theirs), rustix::fs::minor(theirs));
        let screen = String::from_utf8_lossy(shell.screen()).into_owned();
        assert!(screen.contains("same="), "{screen}");
        assert!(!screen.lines().any(|line| line.trim() == ours), "{ours} in {screen}");
        // The control: without the launcher it is the user's.
        shell.send("sh -c 'stat -Lc same=%t:%T /dev/fd/0'\r").unwrap();
        shell.expect(&ours).unwrap();
    });
}

#[test]
fn an_output_on_another_terminal_arrives_there() {
    each_user(|user| {
        let dir = shared_dir();
        let outcome = dir.path().join("outcome");
        let (master, slave) = atoll_testkit::pty::pair().unwrap();
        let script = "test -t 2 && echo held; echo other >&2; echo mine";
        let mut command = user.launcher(&["--outcome", outcome.to_str().unwrap()]);
        command.args(["--", "sh", "-c", script]);
        let mut pty = atoll_testkit::pty::Pty::spawn_with_stderr(&mut command, slave).unwrap();
        assert!(pty.wait().unwrap().success());
        assert_eq!(pty.screen(), b"mine\r\n");
        let mut bytes = [0; 64];
        let count = std::fs::File::from(master).read(&mut bytes).unwrap();
        assert_eq!(&bytes[..count], b"other\r\n");
    });
}
