//! Services: what a sandbox is to have running whenever it runs.
//!
//! Each has a keeper, a task that starts it, waits for it to be ready, follows it to its
//! end and decides what then. A service is an exec like any other, with an id that says so:
//! a server that takes a sandbox up finds its services by that, with their output.

mod attempt;
mod keeper;

#[cfg(test)]
pub(crate) use attempt::id;
pub(crate) use attempt::{is_service, service_of};

use crate::clock::Clock;
use crate::inside::Inside;
use atoll_api::service::{Service, ServiceState, ServiceStatus};
use keeper::Keeper;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// How the services of a sandbox are, in the order of their declaration.
pub(crate) type Statuses = watch::Receiver<Vec<ServiceStatus>>;

/// The services of a sandbox that may run. Who drops it lets go of them: what runs goes
/// on, and is not started again.
pub(crate) struct Services {
    declared: Vec<Service>,
    clock: Arc<dyn Clock>,
    statuses: watch::Sender<Vec<ServiceStatus>>,
    keepers: JoinSet<()>,
    /// Asks each keeper to start its service anew.
    orders: Vec<mpsc::Sender<()>>,
}

impl Services {
    /// Services that nobody keeps yet.
    pub(crate) fn new(declared: &[Service], clock: Arc<dyn Clock>) -> Self {
        let stopped = |service: &Service| ServiceStatus {
            name: service.name.clone(),
            state: ServiceState::Stopped,
            exec_id: None,
            restarts: 0,
            cause: None,
        };
        Self {
            declared: declared.to_vec(),
            clock,
            statuses: watch::Sender::new(declared.iter().map(stopped).collect()),
            keepers: JoinSet::new(),
            orders: Vec::new(),
        }
    }

    /// How they are, now and later.
    pub(crate) fn statuses(&self) -> Statuses {
        self.statuses.subscribe()
    }

    /// Keeps them running in this sandbox, also those that run there already.
    pub(crate) fn keep(&mut self, inside: &Inside) {
        self.let_go();
        for (index, service) in self.declared.iter().enumerate() {
            let (order, orders) = mpsc::channel(1);
            self.orders.push(order);
            self.set_starting(index);
            let shown = self.statuses.clone();
            let (service, inside, clock) = (service.clone(), inside.clone(), self.clock.clone());
            let keeper = Keeper::new(index, service, inside, clock, shown, orders);
            self.keepers.spawn(keeper.run());
        }
    }

    /// Whether somebody keeps them.
    pub(crate) fn are_kept(&self) -> bool {
        self.orders.len() == self.declared.len()
    }

    /// Waits until each is ready, or will not be soon.
    pub(crate) fn settled(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut statuses = self.statuses.subscribe();
        async move {
            let is_starting = |status: &ServiceStatus| status.state == ServiceState::Starting;
            // Without its sender nobody waits for them any more.
            drop(statuses.wait_for(|all| !all.iter().any(is_starting)).await);
        }
    }

    /// Whether each is ready, or has ended as it should.
    pub(crate) fn are_ready(&self) -> bool {
        let is_ready = |status: &ServiceStatus| {
            matches!(status.state, ServiceState::Ready | ServiceState::Stopped)
        };
        self.statuses.borrow().iter().all(is_ready)
    }

    /// Lets go of them, because their sandbox is to stop, or has.
    pub(crate) fn let_go(&mut self) {
        self.keepers.abort_all();
        self.keepers = JoinSet::new();
        self.orders.clear();
        self.statuses.send_modify(|all| {
            for status in all {
                (status.state, status.restarts) = (ServiceState::Stopped, 0);
                (status.exec_id, status.cause) = (None, None);
            }
        });
    }

    /// Has one started anew; gives false if there is none of that name, or nobody keeps it.
    pub(crate) fn restart(&self, name: &str) -> bool {
        let index = self.declared.iter().position(|service| service.name == name);
        let Some(order) = index.and_then(|index| self.orders.get(index)) else { return false };
        self.set_starting(index.unwrap_or_default());
        // One that waits already is enough.
        order.try_send(()).unwrap_or_default();
        true
    }

    /// Before its keeper gets to it, so that who waits does not take the past for an answer.
    fn set_starting(&self, index: usize) {
        self.statuses.send_modify(|all| {
            let status = &mut all[index];
            (status.state, status.cause) = (ServiceState::Starting, None);
        });
    }
}
