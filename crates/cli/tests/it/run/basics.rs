//! The main job: a command runs, behaves as without a sandbox, and its result
//! is the result.

use super::each;
use atoll_testkit::run::Ran;

#[test]
fn output_and_exit_status_are_the_commands_own() {
    each(|project| {
        let script = "printf 'a\\0b\\377'; printf err >&2; exit 7";
        let (bare, run) = (project.bare_sh(script), project.run_sh(&[], script));
        assert_eq!(run.0.stdout, bare.0.stdout, "{}", run.text());
        assert_eq!(run.0.stderr, bare.0.stderr);
        assert_eq!(run.code(), Some(7));
    });
}

#[test]
fn signals_missing_programs_and_unrunnable_ones_have_a_shells_statuses() {
    each(|project| {
        assert_eq!(project.run_sh(&[], "kill -9 $$").code(), Some(137));
        assert_eq!(project.run_sh(&[], "kill -TERM $$").code(), Some(143));
        let status = |command: &[&str]| {
            let mut run = project.atoll(&["run", "--"]);
            run.args(command).status().unwrap().code()
        };
        assert_eq!(status(&["no-such-program"]), Some(127));
        project.write("data", "no program");
        assert_eq!(status(&["./data"]), Some(126));
    });
}

#[test]
fn the_project_is_written_through_and_belongs_to_the_caller() {
    each(|project| {
        project.write("before", "1");
        let run = project.run_sh(&[], "cat before; echo 2 > after; umask 077; mkdir d");
        assert_eq!(run.code(), Some(0), "{}", run.text());
        assert_eq!(run.stdout(), "1");
        assert_eq!(project.read("after"), "2\n");
        use std::os::unix::fs::MetadataExt;
        let after = std::fs::metadata(project.root().join("after")).unwrap();
        let root = std::fs::metadata(project.root()).unwrap();
        assert_eq!((after.uid(), after.gid()), (root.uid(), root.gid()));
        let made = std::fs::metadata(project.root().join("d")).unwrap();
        assert_eq!(made.mode() & 0o7777, 0o700);
    });
}

#[test]
fn a_server_and_its_client_meet_on_loopback() {
    each(|project| {
        let script = r#"python3 -c '
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
peer, _ = server.accept()
client.send(b"hello")
print(peer.recv(5).decode())'"#;
        let run = project.run_sh(&[], script);
        assert_eq!(run.stdout(), "hello\n", "{}", run.text());
    });
}

#[test]
fn a_timeout_kills_everything_and_is_named() {
    each(|project| {
        let run = project.run_sh(&["--timeout", "300ms"], "echo before; sleep 100 & sleep 100");
        assert_eq!(run.code(), Some(124));
        assert_eq!(run.stdout(), "before\n");
        assert!(run.stderr().contains("timed out"), "{}", run.text());
    });
}

#[test]
fn the_result_as_json_is_the_last_line_of_stderr() {
    each(|project| {
        let json = project.run_sh(&["--json"], "echo talk >&2; exit 3").json();
        assert_eq!(json["exit"], 3);
        assert_eq!(json["timed_out"], false);
        let moment = |name: &str| json["timeline"][name].as_u64().unwrap();
        let order = ["planned", "cloned", "view_ready", "confined", "running", "ended", "done"];
        for pair in order.windows(2) {
            assert!(moment(pair[0]) <= moment(pair[1]), "{} {}", pair[0], json["timeline"]);
        }
    });
}

#[test]
fn a_mistyped_flag_is_an_error_and_the_commands_own_flags_are_its_own() {
    each(|project| {
        let atoll = |arguments: &[&str]| Ran(project.atoll(arguments).output().unwrap());
        let mistyped = atoll(&["run", "--workspce", "review", "--", "true"]);
        assert_eq!(mistyped.code(), Some(2), "{}", mistyped.text());
        assert!(mistyped.stderr().contains("'--workspace'"), "{}", mistyped.text());
        let own = atoll(&["run", "echo", "--workspace", "-n", "--", "x"]);
        assert_eq!(own.stdout(), "--workspace -n -- x\n", "{}", own.text());
    });
}
