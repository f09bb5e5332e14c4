//! The keeper of one service.

use super::attempt;
use crate::clock::Clock;
use crate::guest::{Guest, GuestError, Output};
use crate::inside::exec::Place;
use crate::inside::{Inside, path_to_guest as to_guest};
use atoll_api::exec as api;
use atoll_api::id::ExecId;
use atoll_api::service::{
    READY_TIMEOUT_MS_DEFAULT, Ready, ReadyLine, Restart, Service, ServiceState, ServiceStatus,
};
use atoll_api::wait::LogLine;
use atoll_protocol::exec::{
    Cancel, Command, Ended, Input, KEEP_BYTES_DEFAULT, OnDisconnect, Outcome, Signal, Start,
    Target, User,
};
use atoll_protocol::octets::{HasNul, Octets};
use atoll_protocol::ports::Wait;
use atoll_protocol::problem::{Code, Problem};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// The pause before a service that failed is started again: after the first failure, and
/// at most. It doubles with every failure in a row.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// One that ran for so long did not fail in a row.
const RAN_WELL: Duration = Duration::from_secs(60);

/// How long to wait before a guest that did not answer is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// How long a service that is to be started anew may take to end.
const END_WITHIN_MS: u64 = 5_000;

/// See the module.
pub(super) struct Keeper {
    index: usize,
    service: Service,
    inside: Inside,
    guest: Guest,
    clock: Arc<dyn Clock>,
    statuses: watch::Sender<Vec<ServiceStatus>>,
    orders: mpsc::Receiver<()>,
    attempt: u32,
    restarts: u64,
    /// How often it failed in a row.
    failures: u32,
}

/// What became of one attempt.
enum Outcomes {
    /// It ended.
    Ended(Ended),
    /// It could not be started.
    NotStarted(String),
    /// Somebody wants it anew.
    Again,
    /// The guest does not answer: it is gone, which the sandbox's owner will know, or frozen.
    Silent,
}

impl Keeper {
    pub(super) fn new(
        index: usize,
        service: Service,
        inside: Inside,
        clock: Arc<dyn Clock>,
        statuses: watch::Sender<Vec<ServiceStatus>>,
        orders: mpsc::Receiver<()>,
    ) -> Self {
        let (attempt, restarts, failures) = (0, 0, 0);
        let guest = inside.guest().clone();
        Self { index, service, inside, guest, clock, statuses, orders, attempt, restarts, failures }
    }

    /// Keeps the service until it ends for good. Dropped when its sandbox is to stop.
    pub(super) async fn run(mut self) {
        self.find_attempt().await;
        loop {
            let began = self.clock.now();
            let outcome = self.attempt().await;
            if self.clock.now().since(began) >= RAN_WELL {
                self.failures = 0;
            }
            let (state, cause) = match outcome {
                Outcomes::Silent => {
                    let (sandbox, service) = (self.inside.id(), &self.service.name);
                    tracing::debug!(%sandbox, service, "its guest is silent, or gone");
                    rest(&*self.clock, ASK_AGAIN).await;
                    self.find_attempt().await;
                    continue;
                }
                Outcomes::Again => {
                    self.failures = 0;
                    self.next_attempt().await;
                    self.show(ServiceState::Starting, None);
                    continue;
                }
                Outcomes::Ended(ended) => self.judge(&ended),
                Outcomes::NotStarted(cause) if self.service.restart == Restart::Never => {
                    (ServiceState::Failed, Some(cause))
                }
                Outcomes::NotStarted(cause) => (ServiceState::Waiting, Some(cause)),
            };
            self.show(state, cause);
            let is_asked = if state == ServiceState::Waiting {
                let pause = pause(self.failures);
                self.failures += 1;
                tokio::select! {
                    () = rest(&*self.clock, pause) => false,
                    order = self.orders.recv() => order.is_some(),
                }
            } else {
                // Over, unless somebody wants it once more.
                if self.orders.recv().await.is_none() {
                    return;
                }
                true
            };
            if is_asked {
                self.failures = 0;
            }
            self.next_attempt().await;
            self.show(ServiceState::Starting, None);
        }
    }

    /// Finds the latest attempt that the guest knows of, maybe an earlier server's.
    async fn find_attempt(&mut self) {
        let execs = loop {
            match self.guest.execs().await {
                Ok(execs) => break execs,
                Err(_) => rest(&*self.clock, ASK_AGAIN).await,
            }
        };
        let attempts = execs
            .iter()
            .filter_map(|exec| attempt::attempt(&self.service.name, exec.id.parse().ok()?));
        self.attempt = attempts.max().unwrap_or(self.attempt);
    }

    /// Starts the service, or follows the attempt that there is, to its end.
    async fn attempt(&mut self) -> Outcomes {
        let id = attempt::id(&self.service.name, self.attempt);
        let start = match self.start(id) {
            Ok(start) => start,
            Err(error) => return Outcomes::NotStarted(error.to_string()),
        };
        match self.guest.start(start).await {
            Ok(_) => {}
            Err(GuestError::Refused(problem)) => return Outcomes::NotStarted(problem.message),
            Err(_) => return Outcomes::Silent,
        }
        self.show_exec(id);
        let guest = self.guest.clone();
        let end = async move { end(&guest, id).await };
        let mut end = std::pin::pin!(end);
        let ready = ready(self.inside.clone(), self.service.clone(), id);
        tokio::select! {
            biased;
            outcome = &mut end => return outcome,
            Some(()) = self.orders.recv() => return self.end_now(id).await,
            (state, cause) = ready => self.show(state, cause),
        }
        tokio::select! {
            biased;
            outcome = &mut end => outcome,
            Some(()) = self.orders.recv() => self.end_now(id).await,
        }
    }

    fn start(&self, id: ExecId) -> Result<Start, HasNul> {
        let service = &self.service;
        let shell = service.shell.as_deref().unwrap_or_default();
        let arguments = match &service.command {
            Some(command) => command.iter().cloned().map(to_guest).collect(),
            None => ["/bin/sh", "-c", shell]
                .into_iter()
                .map(Octets::try_from)
                .collect::<Result<_, _>>()?,
        };
        let variables = service.env.0.iter();
        Ok(Start {
            id: id.to_string(),
            command: Command {
                arguments,
                environment: variables
                    .map(|(name, value)| {
                        Ok((Octets::try_from(&**name)?, Some(Octets::try_from(&**value)?)))
                    })
                    .collect::<Result<_, HasNul>>()?,
                directory: service.directory.as_deref().map(Octets::try_from).transpose()?,
                user: match service.user {
                    api::User::User => User::Workload,
                    api::User::Root => User::Root,
                },
            },
            name: Some(self.service.name.clone()),
            session: None,
            input: Input::Closed,
            timeout_ms: None,
            keep_bytes: KEEP_BYTES_DEFAULT,
            on_disconnect: OnDisconnect::GoOn,
        })
    }

    /// Ends the attempt that runs, with everything that it started.
    async fn end_now(&self, id: ExecId) -> Outcomes {
        let cancel = Cancel { id: id.to_string(), signal: 15, grace_ms: END_WITHIN_MS };
        match self.guest.cancel(cancel).await {
            Ok(()) | Err(GuestError::Refused(_)) => Outcomes::Again,
            Err(_) => Outcomes::Silent,
        }
    }

    /// Goes on to the next attempt. The last one is forgotten, so that attempts take no more
    /// room than one, and what it left behind is killed, or would hold its ports.
    async fn next_attempt(&mut self) {
        let id = attempt::id(&self.service.name, self.attempt).to_string();
        let signal = Signal { id: id.clone(), signal: 9, target: Target::Session };
        // There may be nothing of it.
        self.guest.signal(signal).await.unwrap_or_default();
        self.guest.forget(id).await.unwrap_or_default();
        self.attempt = self.attempt.wrapping_add(1) & 0x00ff_ffff;
        self.restarts += 1;
    }

    /// What follows on its end.
    fn judge(&self, ended: &Ended) -> (ServiceState, Option<String>) {
        let is_success = ended.outcome == Outcome::Exited(0);
        let cause = match ended.outcome {
            Outcome::Exited(status) => format!("it exited with {status}"),
            Outcome::Signalled(signal) => format!("signal {signal} ended it"),
        };
        match self.service.restart {
            Restart::Always => (ServiceState::Waiting, Some(cause)),
            Restart::OnFailure if !is_success => (ServiceState::Waiting, Some(cause)),
            Restart::Never | Restart::OnFailure if is_success => (ServiceState::Stopped, None),
            Restart::Never | Restart::OnFailure => (ServiceState::Failed, Some(cause)),
        }
    }

    fn show(&self, state: ServiceState, cause: Option<String>) {
        let restarts = self.restarts;
        self.statuses.send_modify(|all| {
            let status = &mut all[self.index];
            (status.state, status.cause, status.restarts) = (state, cause, restarts);
        });
    }

    fn show_exec(&self, id: ExecId) {
        let restarts = self.restarts;
        self.statuses.send_modify(|all| {
            let status = &mut all[self.index];
            (status.exec_id, status.restarts) = (Some(id), restarts);
        });
    }
}

async fn rest(clock: &dyn Clock, time: Duration) {
    clock.wait_until(clock.now().after(time)).await;
}

/// Waits until a service is ready, or late.
async fn ready(inside: Inside, service: Service, id: ExecId) -> (ServiceState, Option<String>) {
    let timeout_ms = service.ready_timeout_ms.unwrap_or(READY_TIMEOUT_MS_DEFAULT);
    let until = Instant::now() + Duration::from_millis(timeout_ms);
    let shown = match service.ready {
        None => return (ServiceState::Ready, None),
        Some(Ready::Port(port)) => {
            match inside.guest().wait_for_port(Wait { port, timeout_ms }).await {
                Err(GuestError::Refused(Problem { code: Code::TimedOut, .. })) => {
                    Err(format!("nothing listened on port {port} within {timeout_ms} ms"))
                }
                shown => shown.map_err(|error| error.to_string()),
            }
        }
        Some(Ready::Log(ReadyLine { stream, pattern })) => {
            let line = LogLine { exec: id, stream, pattern };
            inside.line(line, until).await.map(drop).map_err(|error| error.to_string())
        }
        Some(Ready::Http(answer)) => {
            inside.answer(answer, until).await.map(drop).map_err(|error| error.to_string())
        }
    };
    match shown {
        Ok(()) => (ServiceState::Ready, None),
        Err(cause) => (ServiceState::Late, Some(cause)),
    }
}

/// Waits for the end of an exec, without its output.
async fn end(guest: &Guest, id: ExecId) -> Outcomes {
    let Ok(followed) = guest.follow(Place::default().follow(id)).await else {
        return Outcomes::Silent;
    };
    let mut output = guest.follow_on(followed);
    loop {
        match output.next().await {
            Ok(Some(Output::Ended(ended))) => return Outcomes::Ended(ended),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return Outcomes::Silent,
        }
    }
}

/// The pause after so many failures in a row.
fn pause(failures: u32) -> Duration {
    PAUSE_MIN.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX)).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_half_a_minute() {
        let pauses: Vec<_> = [0, 1, 2, 3, 8, 31, 32, u32::MAX].map(pause).into();
        let expected = [200, 400, 800, 1600, 30_000, 30_000, 30_000, 30_000];
        assert_eq!(pauses, expected.map(Duration::from_millis));
    }
}
