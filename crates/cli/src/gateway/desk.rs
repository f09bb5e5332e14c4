//! What a run is asked by its gateway, for whoever sits at the terminal: one question at a time,
//! and not too many.

use crate::supervise::{Answer, Choices, Question};
use atoll_egress::control::{Asked, Decision, Protocol};
use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

/// How long a question waits for its answer: as long as a request does that is held for it.
const PATIENCE: Duration = Duration::from_secs(120);

/// Most questions in [`WINDOW`]; beyond them nobody is asked.
const QUESTIONS_MAX: usize = 10;

/// For how long questions are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// What the words of a question are made from.
#[derive(Debug)]
pub(crate) struct Words {
    /// The command of the run.
    pub(crate) command: String,
    /// For every rule that asks its layer, its text, and where it was said.
    pub(crate) rules: Vec<(usize, String, String)>,
    /// Where the user would write what is allowed for good.
    pub(crate) user_file: Option<String>,
}

/// Questions of one run.
#[derive(Debug)]
pub(crate) struct Desk {
    /// `None` where nobody can be asked.
    words: Option<Words>,
    waiting: VecDeque<Waiting>,
    /// What was allowed for the whole run.
    allowed: HashSet<Subject>,
    /// When questions came.
    asked: VecDeque<Instant>,
    last: u64,
}

#[derive(Debug)]
struct Waiting {
    question: Question,
    /// The gateway's number.
    number: u64,
    subject: Subject,
}

/// The rule, the host and the port.
type Subject = (String, String, u16);

impl Desk {
    pub(crate) fn new(words: Option<Words>) -> Self {
        let (waiting, allowed, asked) = Default::default();
        Self { words, waiting, allowed, asked, last: 0 }
    }

    /// Takes a question of the gateway's; gives the answer if nobody has to be asked.
    pub(crate) fn take(&mut self, number: u64, asked: &Asked, now: Instant) -> Option<Decision> {
        let subject = (asked.rule.clone(), asked.host.clone(), asked.port);
        let deny = |reason: String| Some(Decision::Deny { reason: Some(reason) });
        let Some(words) = &self.words else {
            let place = place(asked);
            return deny(format!(
                "there is no terminal to ask the user on, who can allow it beforehand with \
                 --allow-host {place}"
            ));
        };
        if self.allowed.contains(&subject) {
            return Some(Decision::Allow { seconds: None });
        }
        while self.asked.front().is_some_and(|at| now.saturating_duration_since(*at) >= WINDOW) {
            self.asked.pop_front();
        }
        if self.asked.len() >= QUESTIONS_MAX {
            return deny(format!("more than {QUESTIONS_MAX} questions in a minute"));
        }
        self.asked.push_back(now);
        self.last += 1;
        let question = Question {
            number: self.last,
            about: words.about(asked),
            asks: format!("allow {}", whole(asked)),
            choices: Choices::OnceOrRun,
            until: now + PATIENCE,
        };
        self.waiting.push_back(Waiting { question, number, subject });
        None
    }

    /// Whose turn it is.
    pub(crate) fn question(&self) -> Option<&Question> {
        self.waiting.front().map(|waiting| &waiting.question)
    }

    /// What the gateway is to be told, with its numbers, if that answers what is asked now.
    pub(crate) fn answer(&mut self, question: u64, answer: Answer) -> Vec<(u64, Decision)> {
        let is_it = |waiting: &Waiting| waiting.question.number == question;
        let Some(Waiting { number, subject, .. }) = self.waiting.pop_front_if(|it| is_it(it))
        else {
            return Vec::new();
        };
        match answer {
            Answer::Once => vec![(number, Decision::Once)],
            Answer::Run => {
                let of_it = |waiting: &Waiting| waiting.subject == subject;
                let same = self.waiting.iter().filter(|it| of_it(it)).map(|it| it.number);
                let numbers: Vec<u64> = std::iter::once(number).chain(same).collect();
                self.waiting.retain(|waiting| !of_it(waiting));
                self.allowed.insert(subject);
                let allow = |number| (number, Decision::Allow { seconds: None });
                numbers.into_iter().map(allow).collect()
            }
            Answer::No => vec![(number, Decision::Deny { reason: None })],
            Answer::Late => vec![(number, Decision::Expire)],
        }
    }

    /// The gateway that asked is gone; another one asks anew.
    pub(crate) fn forget(&mut self) {
        self.waiting.clear();
    }
}

impl Words {
    fn about(&self, asked: &Asked) -> Vec<String> {
        let is_rule = |(layer, text, _): &&(usize, String, String)| {
            (*layer, text) == (asked.layer, &asked.rule)
        };
        let origin = self.rules.iter().find(is_rule).map_or("", |(_, _, origin)| origin);
        let mut lines = vec![
            "atoll: a question of the sandbox's policy".to_owned(),
            format!("  who:    {}", self.command),
            format!("  what:   {}", whole(asked)),
            format!("  rule:   ask {:?} ({origin})", asked.rule),
        ];
        if let Some(file) = &self.user_file {
            let place = place(asked);
            // Of two rules that are equally precise, the one that asks comes first.
            let instead = if place == asked.rule { ", and it is not in ask" } else { "" };
            lines.push(format!(
                "  always: if allow = [{place:?}] is under [network] in {file}{instead}"
            ));
        }
        lines
    }
}

/// What is asked for, as far as it is known.
fn whole(asked: &Asked) -> String {
    let Asked { host, port, protocol, method, path, .. } = asked;
    let host = bracketed(host);
    match (protocol, method, path) {
        (_, Some(method), Some(path)) => format!("{method} {host}:{port}{path}"),
        (Protocol::Tls, ..) => format!("{host}:{port} (TLS)"),
        _ => format!("{host}:{port}"),
    }
}

/// The rule that would allow it.
fn place(asked: &Asked) -> String {
    let host = bracketed(&asked.host);
    match asked.port {
        80 | 443 => host,
        port => format!("{host}:{port}"),
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(host: &str) -> Asked {
        Asked {
            host: host.to_owned(),
            port: 443,
            protocol: Protocol::Http,
            method: Some("GET".to_owned()),
            path: Some("/x".to_owned()),
            rule: "*".to_owned(),
            layer: 0,
        }
    }

    fn desk() -> Desk {
        Desk::new(Some(Words {
            command: "npm test".to_owned(),
            rules: vec![(0, "*".to_owned(), "--ask-host".to_owned())],
            user_file: Some("/h/config.toml".to_owned()),
        }))
    }

    #[test]
    fn a_question_says_who_what_and_why() {
        let (mut desk, now) = (desk(), Instant::now());
        assert_eq!(desk.take(7, &asked("a.test"), now), None);
        let question = desk.question().unwrap();
        assert_eq!(question.asks, "allow GET a.test:443/x");
        assert_eq!(
            question.about[1..],
            [
                "  who:    npm test",
                "  what:   GET a.test:443/x",
                "  rule:   ask \"*\" (--ask-host)",
                "  always: if allow = [\"a.test\"] is under [network] in /h/config.toml",
            ]
        );
        assert_eq!(desk.answer(1, Answer::Once), [(7, Decision::Once)]);
        assert_eq!(desk.question(), None);
        assert_eq!(desk.answer(1, Answer::Once), []);
    }

    #[test]
    fn what_is_allowed_in_the_run_is_not_asked_again() {
        let (mut desk, now) = (desk(), Instant::now());
        assert_eq!(desk.take(1, &asked("a.test"), now), None);
        assert_eq!(desk.take(2, &asked("b.test"), now), None);
        assert_eq!(desk.take(3, &asked("a.test"), now), None);
        let allow = Decision::Allow { seconds: None };
        assert_eq!(desk.answer(1, Answer::Run), [(1, allow.clone()), (3, allow.clone())]);
        assert_eq!(desk.answer(2, Answer::No), [(2, Decision::Deny { reason: None })]);
        // Also by another gateway.
        desk.forget();
        assert_eq!(desk.take(1, &asked("a.test"), now), Some(allow));
        assert_eq!(desk.take(2, &asked("b.test"), now), None);
        assert_eq!(desk.answer(4, Answer::Late), [(2, Decision::Expire)]);
    }

    #[test]
    fn a_flood_is_refused() {
        let (mut desk, now) = (desk(), Instant::now());
        let host = |n: usize| asked(&format!("{n}.test"));
        for n in 0..QUESTIONS_MAX {
            assert_eq!(desk.take(1, &host(n), now), None);
        }
        assert!(matches!(desk.take(1, &host(99), now), Some(Decision::Deny { .. })));
        assert_eq!(desk.take(1, &host(99), now + WINDOW), None);
    }

    #[test]
    fn without_a_terminal_it_says_what_to_write() {
        let mut desk = Desk::new(None);
        let Some(Decision::Deny { reason: Some(reason) }) =
            desk.take(1, &Asked { port: 8080, ..asked("a.test") }, Instant::now())
        else {
            panic!()
        };
        assert!(reason.ends_with("--allow-host a.test:8080"), "{reason}");
        assert_eq!(desk.question(), None);
    }
}
