//! Pulls that are under way: whoever wants the same image waits for the same one.

use super::ImageError;
use atoll_api::image::ImageProgress;
use atoll_store::catalog::Image;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long a first failure is believed; each further one doubles it.
const BELIEVED: Duration = Duration::from_secs(2);

/// How long one is believed at most.
const BELIEVED_MAX: Duration = Duration::from_secs(60);

/// Most failures that are remembered.
const REMEMBERED_MAX: usize = 1000;

/// Where a pull tells how far it is.
#[derive(Debug, Clone)]
pub struct Progress(Arc<watch::Sender<State>>);

impl Progress {
    /// Changes what is told.
    pub(super) fn change(&self, change: impl FnOnce(&mut ImageProgress)) {
        self.0.send_modify(|state| change(&mut state.progress));
    }
}

#[derive(Debug, Clone, Default)]
struct State {
    progress: ImageProgress,
    outcome: Option<Result<Option<Image>, ImageError>>,
}

/// A pull that somebody waits for. It ends when nobody does any more.
#[derive(Debug)]
pub struct Following(watch::Receiver<State>);

impl Following {
    /// Waits for what came of it.
    ///
    /// # Errors
    /// What failed.
    pub async fn outcome(mut self) -> Result<Option<Image>, ImageError> {
        loop {
            if let Err(done) = self.next().await {
                return done;
            }
        }
    }

    /// Waits until it is further than the last time, or until it ends.
    ///
    /// # Errors
    /// What came of it.
    pub async fn next(&mut self) -> Result<ImageProgress, Result<Option<Image>, ImageError>> {
        let told = self.0.changed().await;
        let state = self.0.borrow_and_update().clone();
        match (state.outcome, told) {
            (Some(outcome), _) => Err(outcome),
            (None, Ok(())) => Ok(state.progress),
            (None, Err(_)) => {
                let reason = "its task ended".to_owned();
                Err(Err(ImageError::BrokenOff { reason }))
            }
        }
    }
}

/// Those under way, and those that failed lately.
#[derive(Debug, Default)]
pub(super) struct Jobs(Arc<Mutex<Book>>);

#[derive(Debug, Default)]
struct Book {
    under_way: HashMap<String, watch::Receiver<State>>,
    failed: HashMap<String, Failed>,
}

#[derive(Debug)]
struct Failed {
    error: ImageError,
    until: Instant,
    believed: Duration,
}

impl Jobs {
    /// Waits for what is under way of that name, or begins it. Who `minds_failures` is given the
    /// last one as long as it is believed.
    pub(super) fn follow<F>(
        &self,
        name: &str,
        minds_failures: bool,
        work: impl FnOnce(Progress) -> F,
    ) -> Result<Following, ImageError>
    where
        F: Future<Output = Result<Option<Image>, ImageError>> + Send + 'static,
    {
        let now = Instant::now();
        let mut book = self.book();
        if let Some(job) = book.under_way.get(name)
            && job.has_changed().is_ok()
        {
            let mut job = job.clone();
            // Who comes later hears how far it is at once.
            job.mark_changed();
            return Ok(Following(job));
        }
        if minds_failures
            && let Some(failed) = book.failed.get(name)
            && let Some(after) = failed.until.checked_duration_since(now)
        {
            let source = Box::new(failed.error.clone());
            return Err(ImageError::Again { source, after });
        }
        let (sender, receiver) = watch::channel(State::default());
        let sender = Arc::new(sender);
        let work = work(Progress(sender.clone()));
        book.under_way.insert(name.to_owned(), receiver.clone());
        let (jobs, name) = (self.0.clone(), name.to_owned());
        // The book's own receiver would keep it wanted for ever.
        drop(book);
        tokio::spawn(async move {
            let mut work = std::pin::pin!(work);
            let lock = || jobs.lock().unwrap_or_else(PoisonError::into_inner);
            let outcome = loop {
                tokio::select! {
                    outcome = &mut work => break outcome,
                    () = unwanted(&sender) => {
                        let mut book = lock();
                        // Nobody can have joined since, for the book is needed for that.
                        if sender.receiver_count() <= 1 {
                            book.under_way.remove(&name);
                            return;
                        }
                    }
                }
            };
            let mut book = lock();
            book.under_way.remove(&name);
            book.note(name, outcome.as_ref().err());
            sender.send_modify(|state| state.outcome = Some(outcome));
        });
        Ok(Following(receiver))
    }

    /// How many are under way.
    pub(super) fn count(&self) -> usize {
        self.book().under_way.len()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until nobody but the book has a receiver.
async fn unwanted(sender: &watch::Sender<State>) {
    const LOOK_AGAIN: Duration = Duration::from_millis(200);
    loop {
        super::pause(LOOK_AGAIN).await;
        if sender.receiver_count() <= 1 {
            return;
        }
    }
}

impl Book {
    /// Remembers a failure, or forgets an earlier one.
    fn note(&mut self, name: String, error: Option<&ImageError>) {
        let Some(error) = error.filter(|error| error.is_lasting()) else {
            self.failed.remove(&name);
            return;
        };
        let now = Instant::now();
        let before = self.failed.get(&name).map(|failed| failed.believed);
        let believed = before.map_or(BELIEVED, |before| (before * 2).min(BELIEVED_MAX));
        self.failed.retain(|_, failed| failed.until + BELIEVED_MAX > now);
        if self.failed.len() < REMEMBERED_MAX {
            let error = error.clone();
            self.failed.insert(name, Failed { error, until: now + believed, believed });
        }
    }
}
