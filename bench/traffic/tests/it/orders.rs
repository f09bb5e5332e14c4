//! What is ordered is done, straight and through the relay.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

struct Traffic {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Traffic {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_traffic"));
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, orders, answers }
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn order(&mut self, order: &str) -> String {
        writeln!(self.orders.as_ref().unwrap(), "{order}").unwrap();
        self.hear()
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        drop(self.orders.take());
        self.child.wait().unwrap();
    }
}

#[test]
fn what_is_ordered_is_done_straight_and_through_the_relay() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = folder.path().join("authority.pem");
    let mut servers = Traffic::start(&["serve", certificate.to_str().unwrap()]);
    let said = servers.hear();
    let words: Vec<&str> = said.split(' ').collect();
    let mut relay = Traffic::start(&["relay", words[1]]);
    let relayed = relay.hear();
    for port in [words[1], &relayed] {
        let [bulk, site] = [port, words[2]].map(|port| format!("127.0.0.1:{port}"));
        let mut load = Traffic::start(&["load", &bulk, &site]);
        let orders = [
            "connect 3",
            "ping 2 3",
            "download 3000000",
            "upload 3000000",
            "hold 2",
            "request 2 3 the-real-value",
            "latency 3 the-real-value",
        ];
        for order in orders {
            let answer = load.order(order);
            assert!(answer.parse::<f64>().is_ok_and(|took| took > 0.0), "{order}: {answer}");
        }
        // Who has no secret is seen to have none.
        let answer = load.order("request 1 1 nothing");
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    }
    // Where nobody listens any more, that is said.
    drop(relay);
    let [bulk, site] = [&relayed, words[2]].map(|port| format!("127.0.0.1:{port}"));
    let answer = Traffic::start(&["load", &bulk, &site]).order("connect 1");
    assert!(answer.starts_with("cannot connect"), "{answer}");
}
