//! One sandbox, as the router sees it while requests go to it: woken once however many
//! ask, and held awake while any of them goes on.

use super::refusal::Refusal;
use atoll_api::id::SandboxId;
use atoll_api::sandbox::HoldCause;
use atoll_api::service::{ServiceState, ServiceStatus};
use atoll_engine::error::OperationError;
use atoll_engine::guest::PortStream;
use atoll_engine::inside::{ConnectError, Held, InsideError};
use atoll_engine::{Engine, Inside, Wake};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// How often a sandbox is tried again that fell asleep in between.
const TRIES: usize = 3;

/// The sandboxes to which requests go now.
#[derive(Debug)]
pub(crate) struct Rooms {
    rooms: Mutex<HashMap<SandboxId, Weak<Room>>>,
    /// Most streams to one sandbox.
    each_max: usize,
    /// Streams to all of them.
    all: Arc<Semaphore>,
    all_max: usize,
}

#[derive(Debug)]
pub(crate) struct Room {
    id: SandboxId,
    streams: Arc<Semaphore>,
    /// When it was woken, if requests that go on now had it woken. Locked while that goes
    /// on, so that it is woken once.
    woken_at: tokio::sync::Mutex<Option<Instant>>,
    /// What holds it; one hold for all requests.
    held: tokio::sync::Mutex<Weak<Held>>,
}

/// A place among the requests to a sandbox.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) room: Arc<Room>,
    _of_room: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// A connection to a port, and what keeps the sandbox awake meanwhile.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) stream: PortStream,
    pub(crate) held: Option<Arc<Held>>,
}

impl Rooms {
    pub(crate) fn new(each_max: usize, all_max: usize) -> Self {
        let all = Arc::new(Semaphore::new(all_max));
        Self { rooms: Mutex::default(), each_max, all, all_max }
    }

    /// Takes a place, if there is one.
    pub(crate) fn enter(&self, id: SandboxId) -> Result<Place, Refusal> {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        let room = rooms.get(&id).and_then(Weak::upgrade).unwrap_or_else(|| {
            // Those that were left go, so that their number does not grow.
            rooms.retain(|_, room| room.strong_count() > 0);
            let room = Arc::new(Room {
                id,
                streams: Arc::new(Semaphore::new(self.each_max)),
                woken_at: tokio::sync::Mutex::default(),
                held: tokio::sync::Mutex::default(),
            });
            rooms.insert(id, Arc::downgrade(&room));
            room
        });
        drop(rooms);
        let of_room = room.streams.clone().try_acquire_owned();
        let of_room = of_room.map_err(|_| Refusal::too_many("to this sandbox", self.each_max))?;
        let of_all = self.all.clone().try_acquire_owned();
        let of_all = of_all.map_err(|_| Refusal::too_many("to all sandboxes", self.all_max))?;
        Ok(Place { room, _of_room: of_room, _of_all: of_all })
    }
}

impl Room {
    /// Connects to a port; a sandbox that sleeps is woken, and one that was woken just now
    /// has until the end of `wake_max` to listen.
    pub(crate) async fn way(
        &self,
        engine: &Engine,
        port: u16,
        wake_max: Duration,
    ) -> Result<Way, Refusal> {
        let mut tries = TRIES;
        loop {
            tries -= 1;
            let until = Instant::now() + wake_max;
            let inside = timeout_at(until, self.inside(engine)).await;
            let inside = inside.map_err(|_| late(wake_max))??;
            let held = self.hold(&inside).await;
            let asleep = match self.connect(engine, &inside, port, wake_max).await? {
                Ok(stream) => return Ok(Way { stream, held }),
                Err(asleep) => asleep,
            };
            if tries == 0 {
                return Err(Refusal::not_ready("the sandbox does not answer", Some(&asleep)));
            }
        }
    }

    /// Gives access to it, and has it woken if need be.
    async fn inside(&self, engine: &Engine) -> Result<Inside, Refusal> {
        if let Some(inside) = awake(engine.inside(self.id, Wake::Never).await)? {
            return Ok(inside);
        }
        let mut woken_at = self.woken_at.lock().await;
        // Somebody else had it woken meanwhile.
        if let Some(inside) = awake(engine.inside(self.id, Wake::Never).await)? {
            return Ok(inside);
        }
        tracing::debug!(sandbox_id = %self.id, "a request to a preview wakes it");
        let inside = engine.inside(self.id, Wake::IfAsleep).await.map_err(|error| match error {
            OperationError::NotFound { .. } => Refusal::unknown(),
            error => Refusal::not_ready("the sandbox could not be started", Some(&error)),
        })?;
        *woken_at = Some(Instant::now());
        Ok(inside)
    }

    /// Connects; the inner error is that of a sandbox which fell asleep again.
    async fn connect(
        &self,
        engine: &Engine,
        inside: &Inside,
        port: u16,
        wake_max: Duration,
    ) -> Result<Result<PortStream, ConnectError>, Refusal> {
        let closed = match inside.connect(port).await {
            Ok(stream) => return Ok(Ok(stream)),
            Err(asleep @ ConnectError::Asleep { .. }) => return Ok(Err(asleep)),
            Err(ConnectError::Inside(error)) => return Err(of_inside(error)),
            Err(closed @ ConnectError::Closed { .. }) => closed,
        };
        let woken_at = *self.woken_at.lock().await;
        let time = woken_at.map(|woken_at| wake_max.saturating_sub(woken_at.elapsed()));
        let Some(time) = time.filter(|time| !time.is_zero()) else {
            let listening = inside.ports().await.unwrap_or_default();
            let listening = listening.into_iter().map(|one| one.port).collect();
            return Err(Refusal::closed(port, listening));
        };
        // Nobody else starts anything in a sandbox that has just been woken.
        if let Some(failed) = over(&engine.services(self.id).unwrap_or_default()) {
            return Err(Refusal::not_ready(failed, None));
        }
        match inside.listens_within(port, time).await {
            Ok(true) => {}
            Ok(false) => return Err(late(wake_max)),
            Err(error) => return Err(Refusal::not_ready("the sandbox ended again", Some(&error))),
        }
        match inside.connect(port).await {
            Ok(stream) => Ok(Ok(stream)),
            Err(asleep @ ConnectError::Asleep { .. }) => Ok(Err(asleep)),
            Err(ConnectError::Inside(error)) => Err(of_inside(error)),
            Err(ConnectError::Closed { .. }) => {
                Err(Refusal::not_ready("the server in the sandbox ended again", Some(&closed)))
            }
        }
    }

    /// Holds it awake, once for all requests.
    async fn hold(&self, inside: &Inside) -> Option<Arc<Held>> {
        let mut held = self.held.lock().await;
        if let Some(held) = held.upgrade() {
            return Some(held);
        }
        let cause = HoldCause::Stream { name: "preview".to_owned() };
        match inside.hold(cause).await {
            Ok(new) => {
                let new = Arc::new(new);
                *held = Arc::downgrade(&new);
                Some(new)
            }
            Err(error) => {
                // The request can go on, and may be cut off by an idle stop.
                tracing::warn!(sandbox_id = %self.id, %error, "a preview does not hold it");
                inside.worked();
                None
            }
        }
    }
}

fn awake(looked: Result<Inside, OperationError>) -> Result<Option<Inside>, Refusal> {
    match looked {
        Ok(inside) => Ok(Some(inside)),
        Err(OperationError::NotRunning { .. }) => Ok(None),
        Err(OperationError::NotFound { .. }) => Err(Refusal::unknown()),
        Err(error) => Err(Refusal::not_ready("the sandbox cannot be reached now", Some(&error))),
    }
}

/// What became of declared services, if all are over and one has failed.
fn over(services: &[ServiceStatus]) -> Option<String> {
    let is_over =
        |one: &ServiceStatus| matches!(one.state, ServiceState::Failed | ServiceState::Stopped);
    let failed = services.iter().find(|one| one.state == ServiceState::Failed)?;
    let ServiceStatus { name, cause, .. } = failed;
    let cause = cause.as_deref().map(|cause| format!(": {cause}")).unwrap_or_default();
    let text = format!("the sandbox was woken, and its service {name} failed{cause}");
    services.iter().all(is_over).then_some(text)
}

fn late(wake_max: Duration) -> Refusal {
    let message = format!("the sandbox was woken, and its server is not there after {wake_max:?}");
    Refusal::not_ready(message, None)
}

fn of_inside(error: InsideError) -> Refusal {
    crate::error::Failure::from(error).into()
}
