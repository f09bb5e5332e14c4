//! Sessions: what one exec leaves the next begins with.

use super::{Guest, code, each, sh};
use atoll_protocol::exec::{self, Cause, Outcome};
use atoll_protocol::octets::Octets;
use atoll_protocol::problem::Code;
use atoll_protocol::request::Request;
use atoll_testkit::guest::Ran;

/// A text of shell in a session.
fn within(session: &str, script: &str) -> exec::Start {
    let mut start = sh("");
    start.command.arguments = vec![Octets::try_from(script).unwrap()];
    exec::Start { session: Some(session.to_owned()), ..start }
}

fn run(guest: &Guest, script: &str) -> Ran {
    guest.run(within("one", script))
}

/// What both streams have, when it ends well.
fn says(guest: &Guest, script: &str) -> String {
    let ran = run(guest, script);
    assert_eq!(ran.outcome(), Outcome::Exited(0), "{ran:?}");
    assert_eq!(String::from_utf8_lossy(&ran.stderr), "", "{script}");
    ran.text().to_owned()
}

#[test]
fn the_next_exec_begins_with_what_the_last_one_left() {
    each(|guest| {
        says(guest, "cd /usr/bin; A=1; export B='two\nlines'; C=(x 'y z'); declare -i D=4");
        says(guest, "f() { echo \"f $1\"; }; shopt -s expand_aliases; alias g='echo g'; umask 077");
        says(guest, "IFS=:; name='n a'; status=s; options=o; _under=u; declare -r E=5; set -f");
        assert_eq!(
            says(guest, "pwd; umask; echo $A ${#C[@]} \"${C[1]}\" $E"),
            "/usr/bin\n0077\n1 2 y z 5\n"
        );
        assert_eq!(says(guest, "echo \"$B\"; sh -c 'echo \"$B/$A\"'"), "two\nlines\ntwo\nlines/\n");
        assert_eq!(says(guest, "f x; D=D+1; echo $D; echo /*"), "f x\n5\n/*\n");
        assert_eq!(says(guest, "g h"), "g h\n");
        assert_eq!(
            says(guest, "echo \"$name,$status,$options,$_under\"; printf '%q\\n' \"$IFS\""),
            "n a,s,o,u\n:\n"
        );
        assert_eq!(says(guest, "echo $#; echo $0"), "0\nbash\n");
        // Another session has nothing of it.
        assert_eq!(guest.run(within("other", "pwd; echo -$A-")).text(), "/\n--\n");
    });
}

#[test]
fn status_errors_and_exits_are_the_texts_own() {
    each(|guest| {
        let ran = run(guest, "A=kept; echo out; echo err >&2; exit 3");
        assert_eq!((ran.text(), &ran.stderr[..]), ("out\n", &b"err\n"[..]));
        assert_eq!(ran.outcome(), Outcome::Exited(3));
        assert_eq!(run(guest, "false").outcome(), Outcome::Exited(1));
        assert_eq!(run(guest, "kill -9 $$").outcome(), Outcome::Signalled(9));
        assert_eq!(says(guest, "echo $A"), "kept\n");
        assert_eq!(run(guest, "no-such-program").outcome(), Outcome::Exited(127));
        says(guest, "set -eu");
        assert_eq!(run(guest, "false; echo not reached").text(), "");
        let ran = run(guest, "echo $NOT_SET; echo not reached");
        assert!(ran.text().is_empty() && ran.outcome() != Outcome::Exited(0), "{ran:?}");
        assert_eq!(says(guest, "set +eu; echo $A"), "kept\n");
    });
}

#[test]
fn heredocs_and_what_is_no_shell_break_nothing() {
    each(|guest| {
        assert_eq!(says(guest, "A=1; cat <<END\na $A b\nEND"), "a 1 b\n");
        assert_eq!(says(guest, "cat <<'END'\n$A \"' \\\nEND\necho more"), "$A \"' \\\nmore\n");
        for broken in ["if true; then", "echo 'open", "cat <<END\nno end", "for", ")", "echo `"] {
            let ran = run(guest, broken);
            assert!(matches!(ran.outcome(), Outcome::Exited(_)), "{broken}: {ran:?}");
            assert_eq!(says(guest, "echo $A"), "1\n", "after {broken}");
        }
    });
}

#[test]
fn a_command_that_hangs_is_killed_and_the_session_goes_on() {
    each(|guest| {
        says(guest, "cd /usr; A=1");
        let start = exec::Start {
            timeout_ms: Some(300),
            ..within("one", "A=2; cd /; echo early; while :; do :; done")
        };
        let ran = guest.run(start);
        assert_eq!((ran.text(), ran.outcome()), ("early\n", Outcome::Signalled(9)));
        assert_eq!(ran.ended().cause, Some(Cause::TimedOut));
        // As it was before.
        assert_eq!(says(guest, "pwd; echo $A"), "/usr\n1\n");
        assert_eq!(guest.sh("echo ok").text(), "ok\n");
    });
}

#[test]
fn a_session_runs_one_exec_at_a_time() {
    each(|guest| {
        let long = within("one", "echo ready; while :; do sleep 0.02; done");
        let mut client = guest.ask(&Request::Start(long.clone()));
        client.started();
        client.expect("ready");
        let refused = guest.answer(&Request::Start(within("one", "echo other")));
        assert_eq!(code(&refused), Some(Code::Conflict));
        assert!(refused.unwrap_err().message.contains(&long.id));
        assert_eq!(guest.run(within("other", "echo fine")).text(), "fine\n");
        // The same request is the same exec.
        let mut again = guest.ask(&Request::Start(long));
        assert!(!again.started().0);
    });
}

#[test]
fn what_a_request_says_holds_over_the_session() {
    each(|guest| {
        says(guest, "cd /usr; A=1; B=2");
        let octets = |text: &str| Octets::try_from(text).unwrap();
        let mut start = within("one", "pwd; echo \"$A-$B\"; sh -c 'echo $A'");
        start.command.directory = Some(octets("/"));
        start.command.environment =
            vec![(octets("A"), Some(octets("it's $x"))), (octets("B"), None)];
        assert_eq!(guest.run(start).text(), "/\nit's $x-\nit's $x\n");
        assert_eq!(says(guest, "pwd; echo \"$A-$B\""), "/\nit's $x-\n");
        let mut start = within("one", "echo not reached");
        start.command.directory = Some(octets("/no/such"));
        assert_eq!(code(&guest.answer(&Request::Start(start))), Some(Code::Invalid));
        for (session, arguments) in [("a/b", 1), ("", 1), ("one", 0), ("one", 2)] {
            let mut start = within(session, "true");
            start.command.arguments = vec![octets("true"); arguments];
            assert_eq!(code(&guest.answer(&Request::Start(start))), Some(Code::Invalid));
        }
    });
}
