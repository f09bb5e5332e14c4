//! Time limits, cancelling, signals and the end of the guest.

use super::{Said, code, each, sh};
use atoll_protocol::exec::{self, Cause, Outcome, Target};
use atoll_protocol::problem::Code;
use atoll_protocol::request::{Reply, Request};
use atoll_testkit::process::{left, marker, wait_until};
use std::time::{Duration, Instant};

#[test]
fn a_time_limit_ends_the_whole_session_and_keeps_what_was_printed() {
    each(|guest| {
        // A grandchild keeps standard output open; another group does not help it.
        let mark = marker();
        let script =
            format!("echo early; set -m; sh -c 'sleep 600; : {mark}' & sleep 600; : {mark}");
        let begin = Instant::now();
        let ran = guest.run(exec::Start { timeout_ms: Some(500), ..sh(&script) });
        let took = begin.elapsed();
        assert!(took >= Duration::from_millis(500) && took < Duration::from_secs(5), "{took:?}");
        assert_eq!((ran.text(), ran.outcome()), ("early\n", Outcome::Signalled(9)));
        assert_eq!(ran.ended().cause, Some(Cause::TimedOut));
        left(&mark, <[i32]>::is_empty);
        // Nothing is poisoned.
        assert_eq!(guest.sh("echo ok").text(), "ok\n");
    });
}

#[test]
fn one_that_ends_in_time_has_no_cause() {
    each(|guest| {
        let ran = guest.run(exec::Start { timeout_ms: Some(60_000), ..sh("exit 9") });
        assert_eq!((ran.outcome(), ran.ended().cause), (Outcome::Exited(9), None));
    });
}

#[test]
fn what_is_left_behind_holds_nobody_and_is_kept() {
    each(|guest| {
        let go = guest.dir.path().join("go");
        let script = format!(
            "(until [ -e {0} ]; do sleep 0.02; done; echo late) & echo now; exit 2",
            go.display()
        );
        let start = sh(&script);
        let ran = guest.run(start.clone());
        assert_eq!((ran.text(), ran.outcome()), ("now\n", Outcome::Exited(2)));
        std::fs::write(&go, "").unwrap();
        wait_until("late output", || guest.status(&start.id).stdout.bytes == 9);
        // What belongs to the exec is what was there at its end.
        assert_eq!(guest.status(&start.id).ended.unwrap().stdout.bytes, 4);
        let follow = exec::Follow { id: start.id, stdout: 0, stderr: 0, is_snapshot: false };
        assert_eq!(guest.ask(&Request::Follow(follow)).follow().text(), "now\n");
    });
}

#[test]
fn everything_printed_before_the_end_is_there_however_it_ends() {
    each(|guest| {
        for _ in 0..20 {
            let ran = guest.sh("seq 20000; kill -9 $$");
            assert_eq!(ran.stdout.len(), 108_894);
            assert_eq!(ran.outcome(), Outcome::Signalled(9));
        }
        let mut start = sh("seq 5000; kill -9 $$");
        start.input = exec::Input::Terminal(exec::Size { rows: 24, columns: 80 });
        let ran = guest.run(start);
        assert!(ran.text().ends_with("\r\n5000\r\n"), "{:?}", ran.text().len());
    });
}

#[test]
fn a_cancel_asks_first_and_then_kills() {
    each(|guest| {
        let cancel = |id: &str, grace_ms| {
            Request::Cancel(exec::Cancel { id: id.to_owned(), signal: 15, grace_ms })
        };
        let mild = sh("trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.02; done");
        let mut client = guest.ask(&Request::Start(mild.clone()));
        client.started();
        client.expect("ready");
        assert_eq!(guest.answer(&cancel(&mild.id, 20_000)), Ok(Reply::Done));
        let ran = client.rest();
        assert_eq!((ran.text(), ran.outcome()), ("bye\n", Outcome::Exited(5)));
        assert_eq!(ran.ended().cause, Some(Cause::Cancelled));

        let deaf = sh("trap '' TERM; echo ready; while :; do sleep 0.02; done");
        let mut client = guest.ask(&Request::Start(deaf.clone()));
        client.started();
        client.expect("ready");
        assert_eq!(guest.answer(&cancel(&deaf.id, 100)), Ok(Reply::Done));
        let ran = client.rest();
        assert_eq!(ran.outcome(), Outcome::Signalled(9));
        assert_eq!(ran.ended().cause, Some(Cause::Cancelled));
        // One that has ended is cancelled already.
        assert_eq!(guest.answer(&cancel(&deaf.id, 100)), Ok(Reply::Done));
        assert_eq!(code(&guest.answer(&cancel("nobody", 0))), Some(Code::NotFound));
    });
}

#[test]
fn a_signal_is_for_a_process_a_group_or_a_session() {
    each(|guest| {
        let script = "trap 'echo parent' USR1; (trap 'echo child' USR1; echo ready;
                      while :; do sleep 0.02; done) & while :; do sleep 0.02; done";
        for (target, both) in
            [(Target::Process, false), (Target::Group, true), (Target::Session, true)]
        {
            let start = sh(script);
            let mut client = guest.ask(&Request::Start(start.clone()));
            client.started();
            client.expect("ready");
            let signal = exec::Signal { id: start.id.clone(), signal: 10, target };
            assert_eq!(guest.answer(&Request::Signal(signal)), Ok(Reply::Done));
            let mut seen = client.expect("parent");
            if both && !seen.contains("child") {
                seen += &client.expect("child");
            }
            let kill = exec::Signal { id: start.id, signal: 9, target: Target::Session };
            assert_eq!(guest.answer(&Request::Signal(kill.clone())), Ok(Reply::Done));
            let kill = exec::Signal { target: Target::Process, ..kill };
            let rest = client.rest();
            assert_eq!((seen + rest.text()).contains("child"), both, "{target:?}");
            assert_eq!(rest.ended().cause, None);
            assert_eq!(code(&guest.answer(&Request::Signal(kill))), Some(Code::Conflict));
        }
        let odd = exec::Signal { id: "x".into(), signal: 99, target: Target::Group };
        assert_eq!(code(&guest.answer(&Request::Signal(odd))), Some(Code::Invalid));
    });
}

#[test]
fn an_exec_outlives_its_client_unless_it_is_not_to() {
    each(|guest| {
        let (stays, goes) = (marker(), marker());
        let start = sh(&format!("echo ready; sleep 600; : {stays}"));
        let mut client = guest.ask(&Request::Start(start.clone()));
        client.started();
        client.expect("ready");
        drop(client);
        let ends = exec::Start {
            on_disconnect: exec::OnDisconnect::Kill,
            ..sh(&format!("echo ready; sleep 600; : {goes}"))
        };
        let mut client = guest.ask(&Request::Start(ends.clone()));
        client.started();
        client.expect("ready");
        drop(client);
        left(&goes, <[i32]>::is_empty);
        wait_until("its end", || guest.status(&ends.id).ended.is_some());
        assert_eq!(guest.status(&ends.id).ended.unwrap().cause, Some(Cause::Disconnected));
        assert!(guest.status(&start.id).ended.is_none());
        left(&stays, |found| !found.is_empty());
    });
}

#[test]
fn a_client_that_goes_while_it_is_told_something_is_gone_too() {
    each(|guest| {
        let mark = marker();
        let start = exec::Start {
            on_disconnect: exec::OnDisconnect::Kill,
            ..sh(&format!("while :; do echo more; done; : {mark}"))
        };
        let mut client = guest.ask(&Request::Start(start.clone()));
        client.started();
        client.expect("more");
        // What it is sent cannot be given, and no end of the connection is seen before.
        client.stream.shutdown(std::net::Shutdown::Read).unwrap();
        wait_until("its end", || guest.status(&start.id).ended.is_some());
        assert_eq!(guest.status(&start.id).ended.unwrap().cause, Some(Cause::Disconnected));
        left(&mark, <[i32]>::is_empty);
    });
}

#[test]
fn time_does_not_pass_while_the_clock_is_held() {
    each(|guest| {
        let start = exec::Start { timeout_ms: Some(300), ..sh("echo ready; exec sleep 600") };
        let mut client = guest.ask(&Request::Start(start.clone()));
        client.started();
        client.expect("ready");
        assert_eq!(guest.answer(&Request::HoldClock), Ok(Reply::Done));
        let held = guest.status(&start.id).age_ms;
        // Longer than the limit by a clock that goes on.
        guest.sh("sleep 0.5");
        let status = guest.status(&start.id);
        assert_eq!((status.age_ms, status.ended), (held, None));
        assert_eq!(guest.answer(&Request::ReleaseClock), Ok(Reply::Done));
        assert_eq!(client.rest().ended().cause, Some(Cause::TimedOut));
    });
}

#[test]
fn a_guest_that_is_stopped_ends_everybody_and_says_so() {
    each(|guest| {
        let mark = marker();
        let file = guest.dir.path().join("asked");
        let script = format!(
            "trap 'echo asked > {}; exit 0' TERM; echo ready; while :; do sleep 0.02; done; : {mark}",
            file.display()
        );
        let mut mild = guest.ask(&Request::Start(sh(&script)));
        mild.started();
        mild.expect("ready");
        let mut deaf = guest.ask(&Request::Start(sh(&format!(
            "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo ready; sleep 600; : {mark}'; sleep 600"
        ))));
        deaf.started();
        deaf.expect("ready");
        let mut attending = guest.ask(&Request::Attend);
        let mut stop = guest.ask(&Request::Stop { grace_ms: 300 });
        assert_eq!(stop.answer(), Ok(Reply::Done));
        assert_eq!(attending.answer(), Ok(Reply::Done));
        assert_eq!(attending.hear(), None::<Said>);
        left(&mark, <[i32]>::is_empty);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "asked\n");
    });
}

#[test]
fn a_stop_goes_on_without_who_asked_for_it() {
    each(|guest| {
        let mark = marker();
        let script = format!("trap '' TERM; echo ready; sleep 600; : {mark}");
        let mut client = guest.ask(&Request::Start(sh(&script)));
        client.started();
        client.expect("ready");
        let mut attending = guest.ask(&Request::Attend);
        drop(guest.ask(&Request::Stop { grace_ms: 100 }));
        assert_eq!(attending.answer(), Ok(Reply::Done));
        left(&mark, <[i32]>::is_empty);
    });
}
