//! Asking a person, and what they said.
//!
//! There is one question at a time for a rule and a host, however many connections wait for its
//! answer: clients try again, and open six at once. A question shows one of those who wait, and
//! what is allowed once is allowed to that one alone; then the next is asked for.

use super::refusal::Refused;
use crate::control::{Asked, Decision};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

/// How long a permission for one time waits for somebody to use it.
const GRACE: Duration = Duration::from_secs(60);

/// How long a refusal is not asked about again.
const REFUSED_FOR: Duration = Duration::from_secs(60);

/// Most questions that are remembered; beyond it nothing is asked.
const MAX: usize = 1000;

/// What a question is about: the rule's text, the host and the port.
pub(super) type Subject = (String, String, u16);

/// What somebody wants who falls under a rule that asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wish {
    /// As a person is shown it.
    pub(super) asked: Asked,
    /// The whole path, of which a person may be shown a part, without its query.
    pub(super) path: Option<String>,
}

impl Wish {
    fn subject(&self) -> Subject {
        (self.asked.rule.clone(), self.asked.host.clone(), self.asked.port)
    }
}

/// Questions of one sandbox.
#[derive(Debug, Default)]
pub(super) struct Approvals {
    known: HashMap<Subject, Known>,
    /// What was allowed once while nobody waited for it any more, and until when that holds.
    once: Vec<(Wish, Instant)>,
    last: u64,
}

#[derive(Debug)]
enum Known {
    Pending {
        question: u64,
        /// What the question shows.
        shown: Wish,
        waiting: VecDeque<Waiting>,
    },
    /// Until then, for good if nothing is said.
    Allowed {
        until: Option<Instant>,
    },
    Refused {
        until: Instant,
        answer: Answer,
    },
}

#[derive(Debug)]
struct Waiting {
    wish: Wish,
    answer: oneshot::Sender<Answer>,
}

/// What waits for an answer, and what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Allowed,
    Denied(Option<String>),
    Expired,
}

/// A question that has to be told: its number, and what about.
pub(super) type Question = (u64, Asked);

/// Where somebody stands who needs an approval.
#[derive(Debug)]
pub(super) enum Standing {
    /// It was given.
    Allowed,
    /// It was not.
    Refused(Refused),
    /// It is waited for, and perhaps a question has to be told.
    Waits { question: Option<Question>, answer: oneshot::Receiver<Answer> },
}

impl Approvals {
    /// Where somebody stands, who is about to do what `wish` says.
    pub(super) fn ask(&mut self, wish: Wish, now: Instant) -> Standing {
        let subject = wish.subject();
        match self.known.get(&subject) {
            Some(Known::Allowed { until }) if until.is_none_or(|until| now < until) => {
                return Standing::Allowed;
            }
            Some(Known::Refused { until, answer }) if now < *until => {
                return Standing::Refused(answer.refused());
            }
            Some(Known::Pending { .. } | Known::Allowed { .. } | Known::Refused { .. }) | None => {}
        }
        self.once.retain(|(_, until)| now < *until);
        if let Some(place) = self.once.iter().position(|(allowed, _)| *allowed == wish) {
            self.once.swap_remove(place);
            return Standing::Allowed;
        }
        let (sender, answer) = oneshot::channel();
        if let Some(Known::Pending { waiting, .. }) = self.known.get_mut(&subject) {
            waiting.retain(|waiting| !waiting.answer.is_closed());
            waiting.push_back(Waiting { wish, answer: sender });
            return Standing::Waits { question: None, answer };
        }
        if self.known.len() >= MAX && !self.known.contains_key(&subject) {
            self.known.retain(|_, known| match known {
                Known::Pending { .. } => true,
                Known::Allowed { until } => until.is_none_or(|until| now < until),
                Known::Refused { until, .. } => now < *until,
            });
            if self.known.len() >= MAX {
                return Standing::Refused(Refused::new(
                    "approval-pending",
                    format!("{MAX} other questions wait for somebody's answer"),
                    "wait until they are answered",
                ));
            }
        }
        let question = self.begin(subject, VecDeque::from([Waiting { wish, answer: sender }]));
        Standing::Waits { question, answer }
    }

    /// Begins a question for those who wait, about the first of them.
    fn begin(&mut self, subject: Subject, waiting: VecDeque<Waiting>) -> Option<Question> {
        let shown = waiting.front()?.wish.clone();
        self.last += 1;
        let question = (self.last, shown.asked.clone());
        self.known.insert(subject, Known::Pending { question: self.last, shown, waiting });
        Some(question)
    }

    /// Takes an answer. One to a question that is not there is none. Gives the question that comes
    /// next, for who waits still.
    pub(super) fn decide(
        &mut self,
        question: u64,
        decision: Decision,
        now: Instant,
    ) -> Option<Question> {
        let is_it = |known: &Known| matches!(known, Known::Pending { question: own, .. } if *own == question);
        let found = self.known.iter().find(|(_, known)| is_it(known));
        let subject = found.map(|(subject, _)| subject.clone())?;
        let Some(Known::Pending { shown, mut waiting, .. }) = self.known.remove(&subject) else {
            return None;
        };
        waiting.retain(|waiting| !waiting.answer.is_closed());
        let (answer, known) = match decision {
            Decision::Once => {
                let place = waiting.iter().position(|waiting| waiting.wish == shown);
                let is_heard = |one: Waiting| one.answer.send(Answer::Allowed).is_ok();
                if !place.and_then(|place| waiting.remove(place)).is_some_and(is_heard)
                    && self.once.len() < MAX
                {
                    self.once.push((shown, now + GRACE));
                }
                return self.begin(subject, waiting);
            }
            Decision::Allow { seconds } => {
                // For longer than a clock can say is for good.
                let until =
                    seconds.and_then(|seconds| now.checked_add(Duration::from_secs(seconds)));
                (Answer::Allowed, Known::Allowed { until })
            }
            Decision::Deny { reason } => {
                let answer = Answer::Denied(reason);
                (answer.clone(), Known::Refused { until: now + REFUSED_FOR, answer })
            }
            Decision::Expire => {
                let answer = Answer::Expired;
                (answer.clone(), Known::Refused { until: now + REFUSED_FOR, answer })
            }
        };
        self.known.insert(subject, known);
        for one in waiting {
            // Who has gone meanwhile hears nothing.
            one.answer.send(answer.clone()).ok();
        }
        None
    }
}

impl Answer {
    fn refused(&self) -> Refused {
        match self {
            Self::Denied(reason) => {
                let message = match reason {
                    Some(reason) => format!("it was not approved: {reason}"),
                    None => "it was not approved".to_owned(),
                };
                Refused::new("approval-denied", message, "do without it")
            }
            Self::Allowed | Self::Expired => Refused::new(
                "approval-expired",
                "nobody approved it in time",
                "ask the user, and try again",
            ),
        }
    }
}

/// Waits for an answer as long as `patience` allows.
///
/// # Errors
///
/// It was not approved, or not yet.
pub(super) async fn wait(
    answer: oneshot::Receiver<Answer>,
    patience: Duration,
) -> Result<(), Refused> {
    match timeout(patience, answer).await {
        Ok(Ok(Answer::Allowed)) => Ok(()),
        Ok(Ok(answer)) => Err(answer.refused()),
        Ok(Err(_)) | Err(_) => Err(pending()),
    }
}

fn pending() -> Refused {
    Refused::new(
        "approval-pending",
        "approval pending: somebody has been asked and has not answered yet",
        "try again when it is approved",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Protocol;

    fn wish(host: &str, path: &str) -> Wish {
        let path = Some(path.to_owned());
        Wish {
            asked: Asked {
                host: host.to_owned(),
                port: 443,
                protocol: Protocol::Http,
                method: Some("GET".to_owned()),
                path: path.clone(),
                rule: "*".to_owned(),
                layer: 0,
            },
            path,
        }
    }

    fn asked(
        approvals: &mut Approvals,
        path: &str,
        now: Instant,
    ) -> (Option<Question>, oneshot::Receiver<Answer>) {
        match approvals.ask(wish("a.test", path), now) {
            Standing::Waits { question, answer } => (question, answer),
            standing => panic!("{standing:?}"),
        }
    }

    /// What is new of it, by number and path.
    fn told(question: Option<Question>) -> Option<(u64, String)> {
        question.map(|(number, asked)| (number, asked.path.unwrap()))
    }

    #[tokio::test(start_paused = true)]
    async fn once_is_for_the_one_that_was_shown() {
        let (mut approvals, now) = (Approvals::default(), Instant::now());
        let (question, one) = asked(&mut approvals, "/one", now);
        assert_eq!(told(question), Some((1, "/one".to_owned())));
        let (question, two) = asked(&mut approvals, "/two", now);
        assert_eq!(told(question), None);
        let (_, again) = asked(&mut approvals, "/one", now);
        let next = approvals.decide(1, Decision::Once, now);
        assert_eq!(wait(one, Duration::from_secs(4)).await, Ok(()));
        // The next in line is asked for, and passes by its own question alone.
        assert_eq!(told(next), Some((2, "/two".to_owned())));
        assert_eq!(approvals.decide(1, Decision::Once, now), None);
        let next = approvals.decide(2, Decision::Once, now);
        assert_eq!(wait(two, Duration::from_secs(4)).await, Ok(()));
        assert_eq!(told(next), Some((3, "/one".to_owned())));
        let early = wait(again, Duration::from_secs(4)).await.unwrap_err();
        assert_eq!(early.code, "approval-pending");
        // Used up.
        assert_eq!(approvals.once, []);
    }

    #[tokio::test(start_paused = true)]
    async fn one_answer_is_for_all_who_wait_unless_it_is_for_once() {
        let (mut approvals, now) = (Approvals::default(), Instant::now());
        let (_, one) = asked(&mut approvals, "/one", now);
        let (_, two) = asked(&mut approvals, "/two", now);
        assert_eq!(approvals.decide(1, Decision::Allow { seconds: None }, now), None);
        assert_eq!(wait(one, Duration::from_secs(4)).await, Ok(()));
        assert_eq!(wait(two, Duration::from_secs(4)).await, Ok(()));
        assert!(matches!(approvals.ask(wish("a.test", "/3"), now), Standing::Allowed));
    }

    #[tokio::test]
    async fn once_waits_for_who_tries_the_same_again() {
        let (mut approvals, now) = (Approvals::default(), Instant::now());
        let (_, answer) = asked(&mut approvals, "/one", now);
        drop(answer);
        let (question, other) = asked(&mut approvals, "/two", now);
        assert_eq!(told(question), None);
        let next = approvals.decide(1, Decision::Once, now);
        // What was shown is not there any more, and what is there was not shown.
        assert_eq!(told(next), Some((2, "/two".to_owned())));
        assert!(matches!(approvals.ask(wish("a.test", "/one"), now), Standing::Allowed));
        assert_eq!(told(asked(&mut approvals, "/one", now).0), None);
        drop(other);
        assert_eq!(told(approvals.decide(2, Decision::Once, now)), None);
        assert_eq!(
            told(asked(&mut approvals, "/two", now + GRACE).0),
            Some((3, "/two".to_owned()))
        );
    }

    #[test]
    fn an_answer_holds_for_its_host_and_its_time() {
        let (mut approvals, now) = (Approvals::default(), Instant::now());
        let _waits = asked(&mut approvals, "/", now);
        approvals.decide(1, Decision::Allow { seconds: Some(10) }, now);
        let later = now + Duration::from_secs(9);
        assert!(matches!(approvals.ask(wish("a.test", "/"), later), Standing::Allowed));
        assert!(matches!(approvals.ask(wish("b.test", "/"), later), Standing::Waits { .. }));
        let (question, _) = asked(&mut approvals, "/", now + Duration::from_secs(10));
        assert_eq!(told(question), Some((3, "/".to_owned())));
        let reason = Some("not on a Sunday".to_owned());
        approvals.decide(3, Decision::Deny { reason }, now);
        approvals.decide(3, Decision::Once, now);
        match approvals.ask(wish("a.test", "/other"), now) {
            Standing::Refused(refused) => {
                assert_eq!(refused.code, "approval-denied");
                assert!(refused.message.contains("not on a Sunday"));
            }
            standing => panic!("{standing:?}"),
        }
        assert!(asked(&mut approvals, "/", now + REFUSED_FOR).0.is_some());
    }

    #[test]
    fn a_permission_may_be_for_longer_than_there_is_time() {
        let (mut approvals, now) = (Approvals::default(), Instant::now());
        let _waits = asked(&mut approvals, "/", now);
        approvals.decide(1, Decision::Allow { seconds: Some(u64::MAX) }, now);
        assert!(matches!(approvals.ask(wish("a.test", "/"), now), Standing::Allowed));
    }

    #[test]
    fn there_are_not_too_many() {
        let (mut approvals, now) = (Approvals::default(), Instant::now());
        for number in 0..MAX {
            let standing = approvals.ask(wish(&format!("{number}.test"), "/"), now);
            assert!(matches!(standing, Standing::Waits { .. }));
        }
        assert!(matches!(approvals.ask(wish("x.test", "/"), now), Standing::Refused(_)));
        assert!(matches!(
            approvals.ask(wish("1.test", "/"), now),
            Standing::Waits { question: None, .. }
        ));
    }
}
