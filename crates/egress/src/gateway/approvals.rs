//! Asking a person, and what they said.
//!
//! There is one question for a rule and a host, however many connections wait for its answer:
//! clients try again, and open six at once.

use super::refusal::Refused;
use crate::control::Decision;
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// How long a permission for one time waits for somebody to use it.
const GRACE: Duration = Duration::from_secs(60);

/// How long a refusal is not asked about again.
const REFUSED_FOR: Duration = Duration::from_secs(60);

/// Most questions that are remembered; beyond it nothing is asked.
const MAX: usize = 1000;

/// What a question is about: the rule's text, the host and the port.
pub(super) type Subject = (String, String, u16);

/// Questions of one sandbox.
#[derive(Debug, Default)]
pub(super) struct Approvals {
    known: HashMap<Subject, Known>,
    last: u64,
}

#[derive(Debug)]
enum Known {
    Pending {
        question: u64,
        answer: watch::Sender<Option<Answer>>,
    },
    /// Until then, for good if nothing is said; once if `uses` is one.
    Allowed {
        until: Option<Instant>,
        is_once: bool,
    },
    Refused {
        until: Instant,
        answer: Answer,
    },
}

/// What waits for an answer, and what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Allowed,
    Denied(Option<String>),
    Expired,
}

/// Where somebody stands who needs an approval.
#[derive(Debug)]
pub(super) enum Standing {
    /// It was given.
    Allowed,
    /// It was not.
    Refused(Refused),
    /// It is waited for; `is_new` if the question has to be told.
    Waits { question: u64, is_new: bool, answer: watch::Receiver<Option<Answer>> },
}

impl Approvals {
    /// Where somebody stands, who is about to do what `subject` says.
    pub(super) fn ask(&mut self, subject: &Subject, now: Instant) -> Standing {
        match self.known.get(subject) {
            Some(Known::Pending { question, answer }) => {
                let (question, answer) = (*question, answer.subscribe());
                return Standing::Waits { question, is_new: false, answer };
            }
            Some(Known::Allowed { until, is_once }) if until.is_none_or(|until| now < until) => {
                if *is_once {
                    self.known.remove(subject);
                }
                return Standing::Allowed;
            }
            Some(Known::Refused { until, answer }) if now < *until => {
                return Standing::Refused(answer.refused());
            }
            Some(Known::Allowed { .. } | Known::Refused { .. }) | None => {}
        }
        if self.known.len() >= MAX && !self.known.contains_key(subject) {
            self.known.retain(|_, known| match known {
                Known::Pending { .. } => true,
                Known::Allowed { until, .. } => until.is_none_or(|until| now < until),
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
        self.last += 1;
        let (answer, receiver) = watch::channel(None);
        self.known.insert(subject.clone(), Known::Pending { question: self.last, answer });
        Standing::Waits { question: self.last, is_new: true, answer: receiver }
    }

    /// Takes an answer. One to a question that is not there is none.
    pub(super) fn decide(&mut self, question: u64, decision: Decision, now: Instant) {
        let is_it = |known: &Known| matches!(known, Known::Pending { question: own, .. } if *own == question);
        let Some(subject) =
            self.known.iter().find(|(_, known)| is_it(known)).map(|(subject, _)| subject.clone())
        else {
            return;
        };
        let Some(Known::Pending { answer: waiting, .. }) = self.known.remove(&subject) else {
            return;
        };
        let (answer, known) = match decision {
            // Whoever waits has used it up.
            Decision::Once if waiting.receiver_count() > 0 => (Answer::Allowed, None),
            Decision::Once => {
                let until = Some(now + GRACE);
                (Answer::Allowed, Some(Known::Allowed { until, is_once: true }))
            }
            Decision::Allow { seconds } => {
                // For longer than a clock can say is for good.
                let until =
                    seconds.and_then(|seconds| now.checked_add(Duration::from_secs(seconds)));
                (Answer::Allowed, Some(Known::Allowed { until, is_once: false }))
            }
            Decision::Deny { reason } => {
                let answer = Answer::Denied(reason);
                (answer.clone(), Some(Known::Refused { until: now + REFUSED_FOR, answer }))
            }
            Decision::Expire => {
                let answer = Answer::Expired;
                (answer.clone(), Some(Known::Refused { until: now + REFUSED_FOR, answer }))
            }
        };
        if let Some(known) = known {
            self.known.insert(subject, known);
        }
        // Who waits hears it, if anybody does.
        waiting.send_replace(Some(answer));
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
    mut answer: watch::Receiver<Option<Answer>>,
    patience: Duration,
) -> Result<(), Refused> {
    let heard = timeout(patience, answer.wait_for(Option::is_some)).await;
    match heard {
        Ok(Ok(answer)) => match &*answer {
            Some(Answer::Allowed) => Ok(()),
            Some(answer) => Err(answer.refused()),
            None => Err(pending()),
        },
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

    fn subject(host: &str) -> Subject {
        ("*".to_owned(), host.to_owned(), 443)
    }

    fn asked(
        approvals: &mut Approvals,
        now: Instant,
    ) -> (u64, bool, watch::Receiver<Option<Answer>>) {
        match approvals.ask(&subject("a.test"), now) {
            Standing::Waits { question, is_new, answer } => (question, is_new, answer),
            standing => panic!("{standing:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_question_for_all_who_wait() {
        let (mut approvals, now) = (Approvals::default(), Instant::now());
        let (first, is_new, answer) = asked(&mut approvals, now);
        assert!(is_new);
        let (second, is_new, other) = asked(&mut approvals, now);
        assert_eq!((first, is_new), (second, false));
        let early = wait(answer.clone(), Duration::from_secs(4)).await.unwrap_err();
        assert_eq!(early.code, "approval-pending");
        approvals.decide(first, Decision::Once, now);
        assert_eq!(wait(answer, Duration::from_secs(4)).await, Ok(()));
        assert_eq!(wait(other, Duration::from_secs(4)).await, Ok(()));
        // They have used it up.
        assert!(asked(&mut approvals, now).1);
    }

    #[tokio::test]
    async fn once_waits_for_who_tries_again() {
        let (mut approvals, now) = (Approvals::default(), Instant::now());
        let (question, _, answer) = asked(&mut approvals, now);
        drop(answer);
        approvals.decide(question, Decision::Once, now);
        assert!(matches!(approvals.ask(&subject("a.test"), now), Standing::Allowed));
        let (question, is_new, answer) = asked(&mut approvals, now);
        assert!(is_new);
        drop(answer);
        approvals.decide(question, Decision::Once, now);
        assert!(asked(&mut approvals, now + GRACE).1);
    }

    #[test]
    fn an_answer_holds_for_its_host_and_its_time() {
        let (mut approvals, now) = (Approvals::default(), Instant::now());
        let (question, ..) = asked(&mut approvals, now);
        approvals.decide(question, Decision::Allow { seconds: Some(10) }, now);
        let later = now + Duration::from_secs(9);
        assert!(matches!(approvals.ask(&subject("a.test"), later), Standing::Allowed));
        assert!(matches!(approvals.ask(&subject("b.test"), later), Standing::Waits { .. }));
        let (question, is_new, _) = asked(&mut approvals, now + Duration::from_secs(10));
        assert!(is_new);
        let reason = Some("not on a Sunday".to_owned());
        approvals.decide(question, Decision::Deny { reason }, now);
        approvals.decide(question, Decision::Once, now);
        match approvals.ask(&subject("a.test"), now) {
            Standing::Refused(refused) => {
                assert_eq!(refused.code, "approval-denied");
                assert!(refused.message.contains("not on a Sunday"));
            }
            standing => panic!("{standing:?}"),
        }
        assert!(asked(&mut approvals, now + REFUSED_FOR).1);
    }

    #[test]
    fn a_permission_may_be_for_longer_than_there_is_time() {
        let (mut approvals, now) = (Approvals::default(), Instant::now());
        let (question, ..) = asked(&mut approvals, now);
        approvals.decide(question, Decision::Allow { seconds: Some(u64::MAX) }, now);
        assert!(matches!(approvals.ask(&subject("a.test"), now), Standing::Allowed));
    }

    #[test]
    fn there_are_not_too_many() {
        let (mut approvals, now) = (Approvals::default(), Instant::now());
        for number in 0..MAX {
            let standing = approvals.ask(&subject(&format!("{number}.test")), now);
            assert!(matches!(standing, Standing::Waits { .. }));
        }
        assert!(matches!(approvals.ask(&subject("x.test"), now), Standing::Refused(_)));
        assert!(matches!(
            approvals.ask(&subject("1.test"), now),
            Standing::Waits { is_new: false, .. }
        ));
    }
}
