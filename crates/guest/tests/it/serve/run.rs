//! Commands: what they are given and how they end.

use super::{Guest, Said, code, command, each, sh};
use atoll_protocol::exec::{self, Outcome, Stream};
use atoll_protocol::files;
use atoll_protocol::octets::Octets;
use atoll_protocol::problem::Code;
use atoll_protocol::request::{Reply, Request};

#[test]
fn output_errors_and_status_are_exact_bytes() {
    each(|guest| {
        let ran = guest.sh(r"printf 'a\377\0b'; printf 'oops\n' >&2; exit 3");
        assert!(ran.is_new);
        assert_eq!((&ran.stdout[..], &ran.stderr[..]), (&b"a\xff\0b"[..], &b"oops\n"[..]));
        assert_eq!(ran.outcome(), Outcome::Exited(3));
        let ended = ran.ended();
        assert_eq!((ended.stdout.bytes, ended.stderr.bytes, ended.cause), (4, 5, None));
    });
}

#[test]
fn the_end_by_a_signal_is_no_status() {
    each(|guest| {
        assert_eq!(guest.sh("kill -9 $$").outcome(), Outcome::Signalled(9));
        assert_eq!(guest.sh("exit 137").outcome(), Outcome::Exited(137));
    });
}

#[test]
fn a_command_gets_its_variables_and_its_directory() {
    each(|guest| {
        let octets = |text: &str| Octets::try_from(text).unwrap();
        let mut start = sh("pwd; echo \"$A/$B\"; env | grep -c ^PATH=");
        start.command.directory = Some(octets("/usr"));
        start.command.environment = vec![
            (octets("A"), Some(octets("one two"))),
            (octets("B"), Some(Octets::new(b"\xc3\xbc".as_slice()).unwrap())),
        ];
        assert_eq!(guest.run(start).text(), "/usr\none two/ü\n1\n");
        let mut start = command(&["/usr/bin/env"]);
        start.command.environment = vec![(octets("PATH"), None)];
        assert_eq!(guest.run(start).text(), "");
    });
}

#[test]
fn variables_that_are_bound_are_those_of_every_command_from_then_on() {
    each(|guest| {
        let octets = |text: &str| Octets::try_from(text).unwrap();
        let bind = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| (octets(name), octets(value)));
            guest.answer(&Request::Bind { environment: pairs.collect() })
        };
        let shown = || guest.sh("echo \"$A/$B\"").text().to_owned();
        assert_eq!(shown(), "/\n");
        assert_eq!(bind(&[("A", "1"), ("B", "two words")]), Ok(Reply::Done));
        assert_eq!(shown(), "1/two words\n");
        // All of it or nothing.
        for wrong in ["", "X=Y"] {
            assert_eq!(code(&bind(&[("A", "2"), (wrong, "3")])), Some(Code::Invalid));
        }
        assert_eq!(shown(), "1/two words\n");
        // What a command itself says holds over that.
        let mut start = sh("echo \"$A/$B\"");
        start.command.environment = vec![(octets("A"), Some(octets("own"))), (octets("B"), None)];
        assert_eq!(guest.run(start).text(), "own/\n");
    });
}

#[test]
fn what_cannot_be_run_is_told_by_kind() {
    each(|guest| {
        let answer = |start: exec::Start| code(&guest.answer(&Request::Start(start)));
        assert_eq!(answer(command(&["no-such-program"])), Some(Code::NotFound));
        assert_eq!(answer(command(&["/etc/passwd"])), Some(Code::NotExecutable));
        assert_eq!(answer(command(&[])), Some(Code::Invalid));
        let mut start = command(&["true"]);
        start.command.directory = Some(Octets::try_from("/no/such").unwrap());
        assert_eq!(answer(start), Some(Code::Invalid));
        let mut start = command(&["true"]);
        start.command.user = exec::User::Root;
        assert_eq!(answer(start), Some(Code::Unsupported));
        let mut start = command(&["true"]);
        start.id = String::new();
        assert_eq!(answer(start), Some(Code::Invalid));
        for keep_bytes in [exec::KEEP_BYTES_MIN - 1, exec::KEEP_BYTES_MAX + 1] {
            let start = exec::Start { keep_bytes, ..command(&["true"]) };
            assert_eq!(answer(start), Some(Code::Invalid));
        }
        // Nothing of it is remembered.
        assert_eq!(guest.answer(&Request::Execs), Ok(Reply::Execs(Vec::new())));
    });
}

#[test]
fn a_request_that_is_sent_again_does_not_run_again() {
    each(|guest| {
        let file = guest.dir.path().join("runs");
        let start = sh(&format!("echo run >> {}; echo done", file.display()));
        let first = guest.run(start.clone());
        let again = guest.run(start.clone());
        assert!(first.is_new && !again.is_new);
        assert_eq!(again.text(), "done\n");
        assert_eq!(again.ended, first.ended);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "run\n");
        let other = exec::Start { id: start.id, ..sh("echo other") };
        assert_eq!(code(&guest.answer(&Request::Start(other))), Some(Code::Conflict));
    });
}

#[test]
fn a_script_without_an_interpreter_line_is_the_shells() {
    each(|guest| {
        let script = guest.dir.path().join("script");
        std::fs::write(&script, "echo from $0 $1").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, mode).unwrap();
        let path = script.to_str().unwrap();
        assert_eq!(guest.run(command(&[path, "x"])).text(), format!("from {path} x\n"));
    });
}

#[test]
fn an_exec_can_be_followed_from_any_offset_and_forgotten_when_it_has_ended() {
    each(|guest| {
        let start = sh("printf 0123456789; read x < /dev/null; sleep 0.1; printf abc >&2");
        let ran = guest.run(start.clone());
        assert_eq!(ran.text(), "0123456789");
        let follow = |stdout, stderr, is_snapshot| {
            let id = start.id.clone();
            let follow = exec::Follow { id, stdout, stderr, is_snapshot };
            guest.ask(&Request::Follow(follow)).follow()
        };
        let from = follow(7, 1, false);
        assert_eq!((from.text(), from.first, &from.stderr[..]), ("789", Some(7), &b"bc"[..]));
        assert_eq!(follow(10, 3, true).text(), "");
        let forget = Request::Forget(exec::Forget { id: start.id.clone() });
        assert_eq!(guest.answer(&forget), Ok(Reply::Done));
        assert_eq!(code(&guest.answer(&forget)), Some(Code::NotFound));
        let running = sh("exec sleep 600");
        let mut client = guest.ask(&Request::Start(running.clone()));
        client.started();
        let forget = Request::Forget(exec::Forget { id: running.id });
        assert_eq!(code(&guest.answer(&forget)), Some(Code::Conflict));
    });
}

#[test]
fn a_snapshot_of_a_running_exec_ends_with_what_is_there() {
    each(|guest| {
        let start = sh("echo ready; exec sleep 600");
        let mut client = guest.ask(&Request::Start(start.clone()));
        client.started();
        client.expect("ready");
        let follow = exec::Follow { id: start.id, stdout: 0, stderr: 0, is_snapshot: true };
        let seen = guest.ask(&Request::Follow(follow)).follow();
        assert_eq!((seen.text(), &seen.ended), ("ready\n", &None));
    });
}

#[test]
fn a_terminal_is_one_stream_with_a_size_and_job_control() {
    each(|guest| {
        let mut start = sh(
            "stty size; trap 'stty size; exit 4' WINCH; echo ready; while :; do sleep 0.02; done",
        );
        start.input = exec::Input::Terminal(exec::Size { rows: 30, columns: 100 });
        let mut client = guest.ask(&Request::Start(start.clone()));
        let (_, status) = client.started();
        assert_eq!(status.terminal, Some(exec::Size { rows: 30, columns: 100 }));
        assert!(client.expect("ready").starts_with("30 100\r\n"));
        let size = exec::Size { rows: 50, columns: 132 };
        let resize = Request::Resize(exec::Resize { id: start.id.clone(), size });
        assert_eq!(guest.answer(&resize), Ok(Reply::Done));
        let ran = client.rest();
        assert_eq!((ran.text(), ran.outcome()), ("50 132\r\n", Outcome::Exited(4)));
        // A pipe has no size.
        let start = sh("exec sleep 600");
        guest.ask(&Request::Start(start.clone())).started();
        let resize = Request::Resize(exec::Resize { id: start.id, size });
        assert_eq!(code(&guest.answer(&resize)), Some(Code::Conflict));
    });
}

#[test]
fn keys_reach_the_group_in_front_of_a_terminal() {
    each(|guest| {
        let mut start = command(&["bash", "--norc", "--noprofile", "-i"]);
        start.command.environment =
            vec![(Octets::try_from("PS1").unwrap(), Some(Octets::try_from("$ ").unwrap()))];
        start.input = exec::Input::Terminal(exec::Size { rows: 24, columns: 80 });
        let id = start.id.clone();
        let mut client = guest.ask(&Request::Start(start));
        client.started();
        client.expect("$ ");
        let keys = |text: &str| {
            let id = id.clone();
            let feed = exec::Feed { id, offset: None, keep_open: true };
            let mut feed = guest.ask(&Request::Feed(feed));
            feed.feed(text.as_bytes());
            feed.end();
            assert_eq!(feed.answer(), Ok(Reply::Done));
        };
        keys("sleep 600\r");
        client.expect("sleep 600");
        // The shell waits until it is not in front any more.
        let is_running = |name: &str| guest.sh(&format!("pgrep -x {name}")).text().trim() != "";
        atoll_testkit::process::wait_until("the sleep", || is_running("sleep"));
        keys("\x03");
        client.expect("$ ");
        keys("exit 7\r");
        assert_eq!(client.rest().outcome(), Outcome::Exited(7));
    });
}

#[test]
fn the_state_of_the_guest_is_told() {
    each(|guest: &Guest| {
        let state = || match guest.answer(&Request::Guest) {
            Ok(Reply::Guest(state)) => state,
            other => panic!("{other:?}"),
        };
        let before = state();
        assert_eq!((before.running, before.processes), (0, 0));
        let mut client = guest.ask(&Request::Start(sh("echo ready; sleep 600; :")));
        client.started();
        client.expect("ready");
        atoll_testkit::process::wait_until("both processes", || state().processes == 2);
        let during = state();
        assert_eq!((during.running, during.processes), (1, 2));
        assert!(during.descriptors.used > before.descriptors.used);
        assert!(during.descriptors.used < during.descriptors.limit);
        assert!(during.age_ms >= before.age_ms && during.kept_bytes.used >= 6);
    });
}

#[test]
fn a_thousand_execs_and_dropped_connections_leave_nothing() {
    each(|guest: &Guest| {
        let used = || match guest.answer(&Request::Guest) {
            Ok(Reply::Guest(state)) => (state.descriptors.used, state.processes),
            other => panic!("{other:?}"),
        };
        guest.sh("true");
        let before = used();
        for round in 0..1000 {
            let mut client = guest.ask(&Request::Start(command(&["true"])));
            // Some are read to the end, some are let go of at once.
            if round % 2 == 0 {
                assert_eq!(client.follow().outcome(), Outcome::Exited(0));
            } else {
                client.started();
            }
        }
        atoll_testkit::process::wait_until("as before", || used() == before);
        // What has ended is forgotten in time.
        let Ok(Reply::Execs(execs)) = guest.answer(&Request::Execs) else { panic!() };
        assert!(execs.len() <= 1024, "{}", execs.len());
    });
}

#[test]
fn both_streams_are_told_as_they_come() {
    each(|guest| {
        let mut client = guest
            .ask(&Request::Start(sh("echo a; read x < /dev/null; echo b >&2; exec sleep 600")));
        client.started();
        let mut seen = Vec::new();
        while seen.len() < 2 {
            match client.hear().unwrap() {
                Said::Output(stream, 0, bytes) => seen.push((stream, bytes)),
                other => panic!("{other:?}"),
            }
        }
        seen.sort_by_key(|(stream, _)| *stream == Stream::Stderr);
        assert_eq!(seen, [(Stream::Stdout, b"a\n".to_vec()), (Stream::Stderr, b"b\n".to_vec())]);
    });
}

#[test]
fn files_are_the_sandboxs_own() {
    each(|guest: &Guest| {
        let path = guest.dir.path().join("file");
        let path = Octets::new(path.into_os_string().into_encoded_bytes()).unwrap();
        let write = files::Write {
            path: path.clone(),
            existing: files::Existing::Keep,
            mode: Some(0o640),
            make_parents: false,
        };
        let mut client = guest.ask(&Request::Write(write));
        client.feed(b"words");
        client.end();
        let Ok(Reply::Stat(stat)) = client.answer() else { panic!() };
        assert_eq!((stat.bytes, stat.mode), (5, 0o640));
        assert_eq!(guest.run(command(&["cat", &path.to_string()])).text(), "words");
        let look = files::Look { path: Octets::try_from("/no/such").unwrap(), follow: false };
        assert_eq!(code(&guest.answer(&Request::Look(look))), Some(Code::NotFound));
    });
}

#[test]
fn a_list_can_be_said_however_long_the_commands_are() {
    each(|guest| {
        let long = "x".repeat(100_000);
        let starts: Vec<exec::Start> = (0..50)
            .map(|_| exec::Start { name: Some("one of many".into()), ..command(&["true", &long]) })
            .collect();
        starts.iter().for_each(|start| drop(guest.run(start.clone())));
        let Reply::Execs(execs) = guest.answer(&Request::Execs).unwrap() else { panic!() };
        assert_eq!(execs.len(), starts.len());
        for (exec, start) in execs.iter().zip(&starts) {
            assert_eq!((&exec.id, &exec.name), (&start.id, &start.name));
            assert_eq!(exec.arguments[0], start.command.arguments[0]);
            assert!(exec.arguments[1].as_bytes().len() < exec::LISTED_BYTES_MAX);
        }
    });
}
