//! How a server ends, and what its sandboxes do meanwhile.

use super::support::{log, socket};
use super::{Served, each};
use atoll_testkit::process::wait_until;
use rustix::process::Signal;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

#[test]
fn sandboxes_go_on_without_their_server() {
    each(|project| {
        let mut served = Served::start(project, &[]);
        assert_eq!(served.create("one").status, 201);
        for end in [Served::end, Served::end_by_hangup, Served::end_by_kill] {
            end(&mut served);
            served.again();
            assert_eq!(served.state("one"), "running", "{}", log(project));
        }
        // The last one was taken up with its processes: it can be stopped.
        let stopped = served.ask("POST", "/v1/sandboxes/one/stop", None);
        assert_eq!(stopped.status, 200, "{stopped:?}");
        assert_eq!(served.ask("DELETE", "/v1/sandboxes/one", None).status, 200);
        assert_eq!(served.create("one").status, 201);
    });
}

impl Served<'_> {
    fn end_by_hangup(&mut self) -> std::process::ExitStatus {
        self.signal(Signal::HUP);
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(0));
        status
    }

    fn end_by_kill(&mut self) -> std::process::ExitStatus {
        self.signal(Signal::KILL);
        self.child.wait().unwrap()
    }
}

#[test]
fn a_request_that_runs_is_waited_for_once_and_not_twice() {
    each(|project| {
        let mut served = Served::start(project, &[]);
        let mut stream = UnixStream::connect(socket(project)).unwrap();
        let half = "POST /v1/sandboxes HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                    content-type: application/json\r\ncontent-length: 14\r\n\r\n{\"name\":";
        stream.write_all(half.as_bytes()).unwrap();
        // An answer to another one shows that this one was accepted.
        assert_eq!(served.ask("GET", "/v1/sandboxes", None).status, 200);
        served.signal(Signal::TERM);
        wait_until("the end to begin", || log(project).contains("shutting down"));
        assert_eq!(served.child.try_wait().unwrap(), None, "it waits for the request");
        stream.write_all(b"\"one\"}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        // Whatever it is, it is whole and says what became of the request.
        assert!(answer.starts_with("HTTP/1.1 ") && answer.ends_with('}'), "{answer}");
        assert_eq!(served.child.wait().unwrap().code(), Some(0));

        served.again();
        let mut stream = UnixStream::connect(socket(project)).unwrap();
        stream.write_all(half.as_bytes()).unwrap();
        assert_eq!(served.ask("GET", "/v1/sandboxes", None).status, 200);
        let before = log(project).matches("shutting down").count();
        served.signal(Signal::INT);
        wait_until("the end", || log(project).matches("shutting down").count() > before);
        assert_eq!(served.child.try_wait().unwrap(), None, "it waits for the request");
        served.signal(Signal::TERM);
        assert_eq!(served.child.wait().unwrap().code(), Some(128 + 15));
        assert!(!socket(project).exists(), "it takes its socket away");
    });
}

#[test]
fn a_signal_that_was_ignored_stays_so() {
    each(|project| {
        let served = Served::start_by(project, &[], |command| {
            let program = command.get_program().to_owned();
            let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
            let log = std::fs::File::options().append(true).open(project.outside().join("log"));
            *command = project.bare("sh");
            command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(program).args(arguments);
            command.stdout(std::process::Stdio::null()).stderr(log.unwrap())
        });
        served.signal(Signal::HUP);
        assert_eq!(served.ask("GET", "/healthz", None).status, 200);
        assert_eq!(served.create("one").status, 201);
        assert!(!log(project).contains("asked to end"), "{}", log(project));
    });
}
