//! The task that keeps the gateway: starts it, tells it everything, hears what it tells.
//!
//! `heard` is what it does with that.

mod heard;
#[cfg(test)]
mod tests;

use super::{Gateway, GatewayError, Kept, Wish};
use crate::approvals::Approvals;
use crate::oversight::Oversight;
use crate::usage::Meter;
use atoll_api::audit::AuditKind;
use atoll_api::id::SandboxId;
use atoll_egress::control::{Addition, AskError as OrderError, Counts, Order, Starter};
use atoll_sys::capture::Listeners;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout_at};

/// How long after its end another one is started.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long it may take to say the last things.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How the gateway is started.
pub struct Program {
    /// What starts its process, with a control socket as standard input.
    pub command: Box<dyn Fn() -> Command + Send + Sync>,
    /// What it is told first, as this machine is then.
    pub begin: Box<dyn Fn() -> Vec<Order> + Send + Sync>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Program(..)")
    }
}

/// Keeps it.
#[derive(Debug)]
pub(crate) struct Keeper {
    program: Program,
    oversight: Arc<Oversight>,
    approvals: Approvals,
    kept: Kept,
    meter: Arc<Meter>,
    wishes: mpsc::UnboundedReceiver<Wish>,
    sender: mpsc::UnboundedSender<Wish>,
    sandboxes: HashMap<u64, Served>,
    /// Those that are to be served no more, until the last word about them: whose each is, and
    /// what it had used as far as that is known.
    left: HashMap<u64, (SandboxId, Counts)>,
    last: u64,
    process: Option<Process>,
    /// Orders that are not given yet, with the number of whose listeners go along.
    orders: VecDeque<(Order, Option<u64>)>,
}

#[derive(Debug)]
struct Process {
    control: AsyncFd<Starter>,
    child: Child,
    is_ready: bool,
}

#[derive(Debug)]
struct Served {
    id: SandboxId,
    addition: Box<Addition>,
    listeners: Listeners,
    /// Who waits for a word about it.
    waits: Vec<oneshot::Sender<Result<(), GatewayError>>>,
    /// Who waits for what it has used.
    counts: Vec<oneshot::Sender<()>>,
    /// Nothing ends before that is told.
    is_awaited: bool,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Keeper {
    /// A gateway that is started when the first sandbox needs it, and what can be asked of it.
    pub(crate) fn new(
        program: Program,
        oversight: Arc<Oversight>,
        approvals: Approvals,
        kept: Kept,
        meter: Arc<Meter>,
    ) -> (Gateway, Self) {
        let (sender, wishes) = mpsc::unbounded_channel();
        let keeper = Self {
            program,
            oversight,
            approvals,
            kept,
            meter,
            wishes,
            sender: sender.clone(),
            sandboxes: HashMap::new(),
            left: HashMap::new(),
            last: 0,
            process: None,
            orders: VecDeque::new(),
        };
        (Gateway { wishes: sender }, keeper)
    }

    /// Keeps it until it is dropped.
    pub(crate) async fn run(&mut self) {
        let mut again = Instant::now();
        loop {
            // Until somebody has a network, nobody needs it.
            let is_needed = self.process.is_none() && !self.sandboxes.is_empty();
            if is_needed && Instant::now() >= again {
                self.start();
                again = Instant::now() + AGAIN_AFTER;
            }
            let event = match &self.process {
                Some(process) => {
                    let interest = match self.orders.is_empty() {
                        true => Interest::READABLE,
                        false => Interest::READABLE | Interest::WRITABLE,
                    };
                    tokio::select! {
                        wish = self.wishes.recv() => Event::Wish(wish),
                        ready = process.control.ready(interest) => {
                            if let Ok(mut ready) = ready {
                                ready.clear_ready();
                            }
                            Event::Process
                        }
                    }
                }
                None => tokio::select! {
                    wish = self.wishes.recv() => Event::Wish(wish),
                    () = sleep_until(again), if is_needed => Event::Again,
                },
            };
            match event {
                Event::Wish(None) => return,
                Event::Wish(Some(wish)) => self.grant(wish),
                Event::Process => {
                    if let Err(error) = self.talk() {
                        self.died(&error);
                    }
                }
                Event::Again => {}
            }
        }
    }

    /// Hears what all have used until now, for a moment.
    pub(crate) async fn end(mut self) {
        let until = Instant::now() + LAST_WORDS;
        let numbers: Vec<u64> = self.sandboxes.keys().copied().collect();
        for sandbox in numbers {
            self.order(Order::Count { sandbox }, None);
            if let Some(served) = self.sandboxes.get_mut(&sandbox) {
                served.is_awaited = true;
            }
        }
        while self.sandboxes.values().any(|served| served.is_awaited) || !self.left.is_empty() {
            let Some(process) = self.process.as_ref().filter(|process| process.is_ready) else {
                return;
            };
            let interest = match self.orders.is_empty() {
                true => Interest::READABLE,
                false => Interest::READABLE | Interest::WRITABLE,
            };
            match timeout_at(until, process.control.ready(interest)).await {
                Ok(Ok(mut ready)) => ready.clear_ready(),
                Ok(Err(_)) | Err(_) => return,
            }
            if self.talk().is_err() {
                return;
            }
        }
    }

    fn start(&mut self) {
        match self.spawn() {
            Ok(process) => self.process = Some(process),
            Err(error) => {
                tracing::error!(%error, "the gateway cannot be started");
            }
        }
    }

    fn spawn(&self) -> std::io::Result<Process> {
        let (starter, child) = Starter::spawn((self.program.command)())?;
        starter.set_nonblocking()?;
        #[expect(
            deprecated,
            reason = "what is in its place is unsafe, and a Starter keeps its own"
        )]
        let control = AsyncFd::new(starter)?;
        Ok(Process { control, child, is_ready: false })
    }

    fn died(&mut self, error: &OrderError) {
        self.process = None;
        self.orders.clear();
        self.left.clear();
        for served in self.sandboxes.values_mut() {
            // There is no more to be told.
            served.counts.clear();
        }
        let cause = crate::error::chain(error);
        tracing::error!(
            cause,
            "the gateway has ended; nothing is reached until another one serves"
        );
        self.oversight.tell(None, AuditKind::GatewayDied { cause });
    }

    /// Hears all that there is, and gives all orders that there is room for.
    fn talk(&mut self) -> Result<(), OrderError> {
        let is_blocked = |error: &OrderError| matches!(error, OrderError::Io(error) if error.kind() == std::io::ErrorKind::WouldBlock);
        loop {
            let Some(process) = &self.process else { return Ok(()) };
            match process.control.get_ref().hear() {
                Ok(told) => self.hear(told),
                Err(error) if is_blocked(&error) => break,
                Err(error) => return Err(error),
            }
        }
        while let Some((order, number)) = self.orders.pop_front() {
            let Some(process) = &self.process else { return Ok(()) };
            let served = number.and_then(|number| self.sandboxes.get(&number));
            let sockets: Vec<BorrowedFd<'_>> = served
                .map(|served| served.listeners.tcp.iter().chain(&served.listeners.udp))
                .into_iter()
                .flatten()
                .map(|socket| socket.as_fd())
                .collect();
            match process.control.get_ref().order(&order, &sockets) {
                Ok(()) => {}
                Err(error) if is_blocked(&error) => {
                    self.orders.push_front((order, number));
                    break;
                }
                Err(OrderError::TooLong { bytes }) => {
                    let error = OrderError::TooLong { bytes };
                    if let Some(served) = number.and_then(|number| self.sandboxes.get_mut(&number))
                    {
                        served.answer(Err(GatewayError::Refused(error.to_string())));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn order(&mut self, order: Order, number: Option<u64>) {
        // One that is not there yet is told everything when it is.
        if self.process.as_ref().is_some_and(|process| process.is_ready) {
            self.orders.push_back((order, number));
            if let Err(error) = self.talk() {
                self.died(&error);
            }
        }
    }

    fn number(&self, id: SandboxId) -> Option<u64> {
        self.sandboxes.iter().find(|(_, served)| served.id == id).map(|(number, _)| *number)
    }

    fn grant(&mut self, wish: Wish) {
        match wish {
            Wish::Serve { id, mut addition, listeners, reply } => {
                self.leave(id);
                self.last += 1;
                addition.sandbox = self.last;
                addition.tcp = listeners.tcp.len();
                addition.counts = self.meter.counts(id);
                // From here on it is known to have a network.
                self.meter.counted(id, Counts::default());
                let order = Order::Add(addition.clone());
                let (waits, counts) = (vec![reply], Vec::new());
                let served = Served { id, addition, listeners, waits, counts, is_awaited: false };
                self.sandboxes.insert(self.last, served);
                self.order(order, Some(self.last));
            }
            Wish::Change { id, rules, reply } => {
                let Some(number) = self.number(id) else {
                    // It is served when it runs, by the rules that are then.
                    reply.send(Ok(())).ok();
                    return;
                };
                if let Some(served) = self.sandboxes.get_mut(&number) {
                    served.addition.rules = (*rules).clone();
                    served.waits.push(reply);
                }
                self.order(Order::Change { sandbox: number, rules: *rules }, Some(number));
            }
            Wish::Leave { id } => self.leave(id),
            Wish::Count { id, reply } => {
                let is_ready = self.process.as_ref().is_some_and(|process| process.is_ready);
                if let Some(sandbox) = self.number(id).filter(|_| is_ready) {
                    if let Some(served) = self.sandboxes.get_mut(&sandbox) {
                        served.counts.push(reply);
                    }
                    self.order(Order::Count { sandbox }, None);
                }
            }
            Wish::Decide { number, question, decision } => {
                self.order(Order::Decide { sandbox: number, question, decision }, None);
            }
        }
    }

    fn leave(&mut self, id: SandboxId) {
        if let Some(number) = self.number(id) {
            let served = self.sandboxes.remove(&number);
            if self.process.as_ref().is_some_and(|process| process.is_ready) {
                self.left.extend(served.map(|served| (number, (id, served.addition.counts))));
            }
            self.order(Order::Remove { sandbox: number }, None);
        }
    }

    fn ready(&mut self) {
        self.oversight.tell(None, AuditKind::GatewayStarted);
        if let Some(process) = &mut self.process {
            process.is_ready = true;
        }
        self.orders = (self.program.begin)().into_iter().map(|order| (order, None)).collect();
        for (number, served) in &self.sandboxes {
            self.orders.push_back((Order::Add(served.addition.clone()), Some(*number)));
        }
    }
}

enum Event {
    Wish(Option<Wish>),
    Process,
    Again,
}

impl Served {
    fn answer(&mut self, answer: Result<(), GatewayError>) {
        for wait in self.waits.drain(..) {
            // Whoever asked may have gone.
            wait.send(answer.clone()).ok();
        }
    }
}
