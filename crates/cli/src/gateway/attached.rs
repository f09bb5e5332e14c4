//! A gateway that serves one sandbox, for who watches over that sandbox alone.

use super::desk::{Desk, Words};
use super::start::Gateway;
use crate::supervise::{Answer, Companion, Question};
use atoll_egress::control::{Addition, AskError, Denial, Order, Told};
use atoll_sys::capture::Listeners;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Most kinds of denials that are kept.
const DENIALS_MAX: usize = 1000;

/// How long the gateway may take to say the last things.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The number of the only sandbox.
pub(crate) const SANDBOX: u64 = 1;

/// The gateway, and what it has told.
#[derive(Debug)]
pub(crate) struct Attached {
    gateway: Gateway,
    /// What it is told whenever it begins.
    begin: Vec<Order>,
    addition: Box<Addition>,
    listeners: Listeners,
    state: State,
    denials: Vec<Denial>,
    desk: Desk,
    /// It has said all that there was to be said.
    is_counted: bool,
}

#[derive(Debug)]
enum State {
    Serves,
    /// Nothing is reached any more, for this reason.
    Ended(String),
}

impl Attached {
    /// Has the gateway serve the sandbox that `addition` describes as soon as it is ready for it.
    /// Without `words` nobody can be asked anything.
    pub(crate) fn new(
        gateway: Gateway,
        begin: Vec<Order>,
        addition: Box<Addition>,
        listeners: Listeners,
        words: Option<Words>,
    ) -> Self {
        Self {
            gateway,
            begin,
            addition,
            listeners,
            state: State::Serves,
            denials: Vec::new(),
            desk: Desk::new(words),
            is_counted: false,
        }
    }

    /// What was refused, and why nothing was reached in the end, if that is so. What the gateway
    /// has still to tell is waited for a moment.
    pub(crate) fn told(mut self) -> (Vec<Denial>, Option<String>) {
        let until = Instant::now() + LAST_WORDS;
        // Its answer comes behind all that it tells of its own accord.
        if self.gateway.order(&Order::Count { sandbox: SANDBOX }, &[]).is_ok() {
            while !self.is_counted && self.is_heard_before(until) {
                self.serve();
            }
        }
        let why = match self.state {
            State::Serves => None,
            State::Ended(why) => Some(why),
        };
        (self.denials, why)
    }

    fn is_heard_before(&self, until: Instant) -> bool {
        let Some(socket) = self.socket() else { return false };
        let left = Timespec::try_from(until.saturating_duration_since(Instant::now()));
        poll(&mut [PollFd::from_borrowed_fd(socket, PollFlags::IN)], left.ok().as_ref())
            .is_ok_and(|ready| ready > 0)
    }

    /// A new gateway knows nothing: it gets everything once more.
    fn begin(&self) -> Result<(), AskError> {
        for order in &self.begin {
            self.gateway.order(order, &[])?;
        }
        let listeners = &self.listeners;
        let sockets: Vec<BorrowedFd<'_>> =
            listeners.tcp.iter().chain(&listeners.udp).map(AsFd::as_fd).collect();
        self.gateway.order(&Order::Add(self.addition.clone()), &sockets)
    }

    fn hear(&mut self, told: Told) -> Result<(), AskError> {
        match told {
            Told::Ready => {
                self.desk.forget();
                self.begin()?;
            }
            Told::Named { name, .. } => self.addition.stand_ins.names.push(name),
            Told::Denied { denial, .. } => self.keep(denial),
            Told::Question { question, asked, .. } => {
                if let Some(decision) = self.desk.take(question, &asked, Instant::now()) {
                    let sandbox = SANDBOX;
                    self.gateway.order(&Order::Decide { sandbox, question, decision }, &[])?;
                }
            }
            Told::Failed { text, .. } => self.state = State::Ended(text),
            Told::Deaf { .. } => {
                self.state = State::Ended("a listener of the sandbox was closed".to_owned());
            }
            Told::Added { .. }
            | Told::Changed { .. }
            | Told::Reached { .. }
            | Told::Used { .. }
            | Told::Redacted { .. } => {}
            Told::Counted { counts, is_answer, .. } => {
                // Another gateway goes on from there, also with what the budgets allow.
                self.addition.counts = counts;
                self.is_counted |= is_answer;
            }
            Told::Removed { counts, .. } => {
                // Nobody has asked for that here; whatever it was, nothing comes behind it.
                self.addition.counts = counts;
                self.is_counted = true;
                self.state = State::Ended("the gateway serves the sandbox no more".to_owned());
            }
        }
        Ok(())
    }

    fn end(&mut self, error: &AskError) {
        let mut why = error.to_string();
        if let Some(cause) = std::error::Error::source(error) {
            why += &format!(": {cause}");
        }
        self.state = State::Ended(why);
    }

    /// The same refusal again is counted with the first.
    fn keep(&mut self, denial: Denial) {
        let is_same = |known: &Denial| {
            (&known.code, &known.host, known.port, &known.rule)
                == (&denial.code, &denial.host, denial.port, &denial.rule)
        };
        match self.denials.iter().position(is_same) {
            Some(place) => self.denials[place].count += denial.count,
            None if self.denials.len() < DENIALS_MAX => self.denials.push(denial),
            None => {}
        }
    }
}

impl Companion for Attached {
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        matches!(self.state, State::Serves).then(|| self.gateway.starter().as_fd())
    }

    fn serve(&mut self) {
        let heard = self.gateway.starter().hear();
        if let Err(error) = heard.and_then(|told| self.hear(told)) {
            self.end(&error);
        }
    }

    fn question(&self) -> Option<&Question> {
        // Nobody is there any more who would hear the answer.
        matches!(self.state, State::Serves).then(|| self.desk.question()).flatten()
    }

    fn answer(&mut self, number: u64, answer: Answer) {
        for (question, decision) in self.desk.answer(number, answer) {
            let order = Order::Decide { sandbox: SANDBOX, question, decision };
            if let Err(error) = self.gateway.order(&order, &[]) {
                self.end(&error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_egress::control::{Budgets, Counts, Help, Rules, Starter};
    use atoll_egress::stand_in::Kept;

    #[test]
    fn the_last_word_about_the_sandbox_is_the_end_and_has_all_that_was_used() {
        let (starter, theirs) = Starter::pair().unwrap();
        let rules = Rules {
            layers: Vec::new(),
            explain: false,
            ipv6: false,
            budgets: Budgets::default(),
            secrets: Vec::new(),
            help: Help::Run,
        };
        let addition = Box::new(Addition {
            sandbox: SANDBOX,
            tcp: 0,
            rules,
            stand_ins: Kept::empty("11.0.0.0/15").unwrap(),
            counts: Counts::default(),
            authority: None,
        });
        let listeners = Listeners { tcp: Vec::new(), udp: Vec::new(), is_complete: true };
        let gateway = Gateway::of(starter);
        let mut attached = Attached::new(gateway, Vec::new(), addition, listeners, None);
        let counted = |requests| Counts { requests, ..Counts::default() };
        for told in [
            Told::Counted { sandbox: SANDBOX, counts: counted(1), is_answer: false },
            Told::Removed { sandbox: SANDBOX, counts: counted(2) },
        ] {
            assert!(attached.socket().is_some() && !attached.is_counted);
            let said = serde_json::to_vec(&told).unwrap();
            atoll_sys::scm::send_all(theirs.as_fd(), &said, &[]).unwrap();
            attached.serve();
        }
        assert_eq!(attached.addition.counts, counted(2));
        assert!(attached.is_counted && attached.socket().is_none());
        // Nothing is waited for any more.
        let (_, why) = attached.told();
        assert_eq!(why.as_deref(), Some("the gateway serves the sandbox no more"));
    }
}
