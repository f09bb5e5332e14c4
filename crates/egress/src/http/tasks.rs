//! Tasks of one connection, which end with it.

use hyper::rt::Executor;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::task::JoinSet;

/// Tasks that end when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Tasks(Arc<Mutex<JoinSet<()>>>);

/// Adds tasks, as long as there is who owns them.
#[derive(Debug, Clone)]
pub(super) struct Spawner(Weak<Mutex<JoinSet<()>>>);

impl Tasks {
    pub(super) fn spawner(&self) -> Spawner {
        Spawner(Arc::downgrade(&self.0))
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        spawn(&self.0, task);
    }
}

fn spawn(tasks: &Mutex<JoinSet<()>>, task: impl Future<Output = ()> + Send + 'static) {
    let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
    // What has ended is not kept.
    while tasks.try_join_next().is_some() {}
    tasks.spawn(task);
}

impl<F> Executor<F> for Spawner
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, task: F) {
        if let Some(tasks) = self.0.upgrade() {
            spawn(&tasks, async { drop(task.await) });
        }
    }
}
