//! Standard input: closed unless it is asked for, and exact where it is.

use super::{code, command, each, sh};
use atoll_protocol::exec::{self, Input, Outcome};
use atoll_protocol::problem::Code;
use atoll_protocol::request::{Reply, Request};
use atoll_testkit::process::wait_until;

fn with_pipe(start: exec::Start) -> exec::Start {
    exec::Start { input: Input::Pipe, ..start }
}

fn feed(id: &str, offset: Option<u64>, keep_open: bool) -> Request {
    Request::Feed(exec::Feed { id: id.to_owned(), offset, keep_open })
}

#[test]
fn a_command_that_reads_without_being_fed_is_at_the_end() {
    each(|guest| {
        assert_eq!(guest.run(command(&["cat"])).outcome(), Outcome::Exited(0));
        let start = command(&["cat"]);
        guest.run(start.clone());
        assert_eq!(code(&guest.answer(&feed(&start.id, None, false))), Some(Code::Conflict));
        assert_eq!(code(&guest.answer(&feed("nobody", None, false))), Some(Code::NotFound));
    });
}

#[test]
fn what_has_ended_is_remembered_without_its_pipes_and_terminals() {
    each(|guest| {
        let used = || match guest.answer(&Request::Guest) {
            Ok(Reply::Guest(state)) => state.descriptors.used,
            other => panic!("{other:?}"),
        };
        guest.sh("true");
        let before = used();
        let terminal = Input::Terminal(exec::Size { rows: 24, columns: 80 });
        let starts: Vec<_> = [Input::Pipe, terminal]
            .into_iter()
            .cycle()
            .take(10)
            .map(|input| exec::Start { input, ..sh("exit 3") })
            .collect();
        for start in &starts {
            assert_eq!(guest.run(start.clone()).outcome(), Outcome::Exited(3));
        }
        wait_until("as before", || used() == before);
        assert!(starts.iter().all(|start| guest.status(&start.id).ended.is_some()));
        // Nobody takes what it is fed, and that is said.
        let mut late = guest.ask(&feed(&starts[1].id, None, false));
        late.feed(b"late");
        late.end();
        assert_eq!(code(&late.answer()), Some(Code::Conflict));
    });
}

#[test]
fn input_arrives_exactly_and_ends_when_it_is_ended() {
    each(|guest| {
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
        let start = with_pipe(command(&["cat"]));
        let mut client = guest.ask(&Request::Start(start.clone()));
        client.started();
        let mut feeding = guest.ask(&feed(&start.id, None, false));
        let expected = bytes.clone();
        let reader = std::thread::spawn(move || {
            let ran = client.rest();
            assert!(ran.stdout == expected, "{} bytes", ran.stdout.len());
            assert_eq!(ran.outcome(), Outcome::Exited(0));
        });
        for part in bytes.chunks(100_000) {
            feeding.feed(part);
        }
        feeding.end();
        assert_eq!(feeding.answer(), Ok(Reply::Done));
        reader.join().unwrap();
        assert_eq!(guest.status(&start.id).fed_bytes, 3_000_000);
    });
}

#[test]
fn what_is_sent_again_is_not_fed_again() {
    each(|guest| {
        let start = with_pipe(command(&["cat"]));
        let mut client = guest.ask(&Request::Start(start.clone()));
        client.started();
        let mut first = guest.ask(&feed(&start.id, Some(0), true));
        first.feed(b"one two ");
        first.end();
        assert_eq!(first.answer(), Ok(Reply::Done));
        // A gap would be lost input.
        assert_eq!(code(&guest.answer(&feed(&start.id, Some(20), true))), Some(Code::Invalid));
        let mut again = guest.ask(&feed(&start.id, Some(4), false));
        again.feed(b"two thr");
        again.feed(b"ee");
        again.end();
        assert_eq!(again.answer(), Ok(Reply::Done));
        assert_eq!(client.rest().text(), "one two three");
    });
}

#[test]
fn a_feeder_that_is_gone_leaves_the_pipe_open() {
    each(|guest| {
        let start = with_pipe(sh("read a; read b; echo $a-$b"));
        let mut client = guest.ask(&Request::Start(start.clone()));
        client.started();
        let mut gone = guest.ask(&feed(&start.id, None, false));
        gone.feed(b"a\n");
        drop(gone);
        atoll_testkit::process::wait_until("what was fed", || {
            guest.status(&start.id).fed_bytes == 2
        });
        let mut other = guest.ask(&feed(&start.id, None, false));
        other.feed(b"b\n");
        other.end();
        assert_eq!(other.answer(), Ok(Reply::Done));
        assert_eq!(client.rest().text(), "a-b\n");
    });
}

#[test]
fn a_command_that_stops_reading_refuses_the_rest() {
    each(|guest| {
        let start = with_pipe(sh("exec <&-; echo closed; exec sleep 600"));
        let mut client = guest.ask(&Request::Start(start.clone()));
        client.started();
        client.expect("closed");
        let mut feeding = guest.ask(&feed(&start.id, None, false));
        feeding.feed(b"too late");
        assert_eq!(code(&feeding.answer()), Some(Code::Conflict));
    });
}

#[test]
fn input_beyond_what_waits_holds_the_feeder_not_the_guest() {
    each(|guest| {
        let start = with_pipe(sh("echo ready; exec sleep 600"));
        let mut client = guest.ask(&Request::Start(start.clone()));
        client.started();
        client.expect("ready");
        let mut feeding = guest.ask(&feed(&start.id, None, false));
        feeding.stream.set_nonblocking(true).unwrap();
        let mut bytes =
            atoll_protocol::frame::header(atoll_protocol::frame::Kind::Body, 200_000).to_vec();
        bytes.resize(bytes.len() + 200_000, b'x');
        // Until nothing is taken any more for a while.
        let mut taken = 0;
        let mut idle = 0;
        while idle < 20 {
            use std::io::Write as _;
            let from = taken % bytes.len();
            match feeding.stream.write(&bytes[from..]) {
                Ok(length) => (taken, idle) = (taken + length, 0),
                Err(_) => {
                    idle += 1;
                    assert_eq!(guest.sh("echo ok").text(), "ok\n");
                }
            }
            assert!(taken < 20_000_000, "it takes everything");
        }
        assert!(guest.status(&start.id).fed_bytes < 1_000_000);
    });
}
