//! Its files in object storage, and the way back.
//!
//! The id of an archive is written down before anything is named by it, as one that is not needed; in
//! one step with the state it becomes the one that has the files, and the same the other way round.
//! So there is a moment from which on the files are there, and one from which on they are here,
//! whenever a server dies; and an archive that is not needed is always known, and goes.

use super::{Owner, RETRY_AFTER};
use crate::archives::{self, ArchiveError, Archives};
use crate::backend::{BackendError, Processes, Progress, Spec};
use crate::clock::Clock;
use crate::error::{OperationError, chain};
use crate::records::{Fate, Record};
use crate::snapshots::Kept;
use crate::state::{Step, Verb};
use crate::told;
use atoll_api::archive::{ArchiveKind, Archived};
use atoll_api::audit::AuditKind;
use atoll_api::id::{ArchiveId, LayerId, SnapshotId};
use atoll_api::sandbox::{EventKind, State};
use atoll_api::snapshot::CreateSnapshot;
use atoll_api::time::Timestamp;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// How long an archive stays after its files have come back: file systems write what was made at
/// least so often.
const ON_DISK_AFTER: Duration = Duration::from_secs(120);

/// What is left to be done when nobody asks for anything else.
#[derive(Debug, Default)]
pub(super) struct Chores {
    /// When to look.
    at: Option<Timestamp>,
    /// An archive that is not needed, while it is being removed.
    dropping: Option<Dropping>,
    /// Files of one that is archived may be here still.
    has_leftovers: bool,
    /// A layer with all that it keeps, for as long as it does not run: an attempt that failed made
    /// it, and the next one need not make another.
    layer: Option<LayerId>,
}

#[derive(Debug)]
struct Dropping {
    archive: ArchiveId,
    /// Whether it worked, as soon as that is known.
    outcome: watch::Receiver<Option<bool>>,
    work: AbortHandle,
}

impl Drop for Dropping {
    fn drop(&mut self) {
        self.work.abort();
    }
}

impl Chores {
    /// Has it looked at now what there is to do.
    pub(super) fn due(&mut self, record: &Record, clock: &dyn Clock) {
        self.has_leftovers = record.state == State::Archived;
        if self.has_leftovers || record.stale_archive.is_some() {
            self.at = Some(clock.now());
        }
    }

    /// The same once its files, which have come back, are on the disk for sure.
    pub(super) fn due_later(&mut self, record: &Record, clock: &dyn Clock) {
        if record.stale_archive.is_some() {
            self.at = Some(clock.now().after(ON_DISK_AFTER));
        }
    }

    /// What it keeps may be more than the layer has.
    pub(super) fn forget_layer(&mut self) {
        self.layer = None;
    }

    /// When to look, and what else to wait for.
    pub(super) fn parts(
        &mut self,
    ) -> (Option<Timestamp>, Option<&mut watch::Receiver<Option<bool>>>) {
        (self.at, self.dropping.as_mut().map(|dropping| &mut dropping.outcome))
    }
}

/// Waits until an archive is removed, or is not; for ever if none is being. Dropping it loses
/// nothing.
pub(super) async fn dropped(outcome: Option<&mut watch::Receiver<Option<bool>>>) {
    match outcome {
        // Who ended without a word did not do it.
        Some(outcome) => drop(outcome.wait_for(Option::is_some).await),
        None => std::future::pending().await,
    }
}

impl Owner {
    /// Archives it for somebody, and stops it before if it `stops`.
    pub(super) async fn archive_for(&mut self, stops: bool) -> Result<Archived, ArchiveError> {
        if stops && matches!(self.record.state, State::Running | State::Paused) {
            self.act(Verb::Stop, "archive").await?;
        }
        self.archive("request").await
    }

    /// Puts its files into object storage, and takes them away here. If it fails it is stopped, and
    /// has them all.
    pub(super) async fn archive(&mut self, reason: &str) -> Result<Archived, ArchiveError> {
        let (id, state, tier) = (self.record.id, self.record.state, self.record.tier);
        let shared = self.shared.clone();
        let archives = shared.archives.clone().ok_or(ArchiveError::NoPlace)?;
        if let (State::Archived, Some(id)) = (state, self.record.archive) {
            let archive = self.meanwhile(archives.get(id)).await?;
            let archive = archive.ok_or(ArchiveError::NotFound { id })?;
            return Ok(Archived { archive, sent_layers: 0, sent_bytes: 0 });
        }
        if state != State::Stopped {
            return Err(OperationError::WrongState { id, verb: Verb::Archive, state }.into());
        }
        if !shared.backend.capabilities().snapshot {
            return Err(OperationError::Unsupported { id, tier, capability: "snapshot" }.into());
        }
        let progress = archives::until_closing(&shared);
        self.archiving = Some(progress.clone());
        let archived = self.put_away(&archives, reason, &progress).await;
        self.archiving = None;
        if archived.is_err() {
            self.chores.due(&self.record, &*shared.clock);
        }
        archived
    }

    async fn put_away(
        &mut self,
        archives: &Arc<Archives>,
        reason: &str,
        progress: &Arc<Progress>,
    ) -> Result<Archived, ArchiveError> {
        let (id, shared) = (self.record.id, self.shared.clone());
        let _turn = self.meanwhile(archives.turn()).await?;
        self.drop_stale(archives).await?;
        let archive_id = ArchiveId::from_random(archives::random()?);
        // A store that does not answer is found out before anything is done.
        self.meanwhile(archives.get(archive_id)).await?;
        let layer = self.layer_of_all(progress).await?;
        let snapshot = SnapshotId::from_random(archives::random()?);
        let request = CreateSnapshot { labels: self.record.labels.clone(), ..Default::default() };
        let kept = Kept::of(&self.record, snapshot, layer, &request, shared.clock.now());
        self.record.stale_archive = Some(archive_id);
        let what = EventKind::Archiving { reason: reason.to_owned(), archive_id };
        if let Err(source) = self.write(what, Fate::Keep).await {
            self.record.stale_archive = None;
            return Err(OperationError::Records { id, source }.into());
        }
        let of = move || Ok(kept.clone());
        let named = (archive_id, ArchiveKind::Sandbox);
        let sent = archives::send(&shared, archives, named, &of, progress);
        let archived = match self.meanwhile(sent).await {
            Ok(archived) => archived,
            Err(error) => {
                if matches!(error, ArchiveError::Host { .. }) {
                    self.chores.forget_layer();
                }
                return Err(error);
            }
        };
        if self.deferred.iter().any(|it| it.is_forceful() || it.is_resumption()) {
            return Err(ArchiveError::BrokenOff);
        }
        self.record.archive = self.record.stale_archive.take();
        let what = EventKind::Archived { archive_id };
        if let Err(source) = self.intend(Step::Archived, what).await {
            self.record.stale_archive = self.record.archive.take();
            return Err(OperationError::Records { id, source }.into());
        }
        shared.oversight.tell(Some(id), AuditKind::SandboxArchived { archive_id });
        self.chores.forget_layer();
        self.clear_away().await;
        Ok(archived)
    }

    /// A layer with everything that it keeps, which stays above it.
    async fn layer_of_all(&mut self, progress: &Arc<Progress>) -> Result<LayerId, ArchiveError> {
        if let Some(layer) = self.chores.layer {
            return Ok(layer);
        }
        let layer = LayerId::from_random(archives::random()?);
        let (shared, progress) = (self.shared.clone(), progress.clone());
        // Nothing is collected meanwhile.
        let making = shared.snapshots.layers.read().await;
        let made =
            self.call(move |backend, id| backend.snapshot(id, layer, Processes::None, &progress));
        let taken = made.await.map_err(|source| ArchiveError::Host { source });
        drop(making);
        shared.snapshots.taken_above(taken?.below);
        self.chores.layer = Some(layer);
        Ok(layer)
    }

    /// Takes away what is here of one that is archived. What cannot be now is later.
    async fn clear_away(&mut self) {
        self.chores.has_leftovers = true;
        // A machine that loses its power has to find that written down.
        if self.shared.records.sync().await.is_err() {
            return self.look_later();
        }
        let removed = self.call(|backend, id| backend.remove(id)).await;
        self.chores.has_leftovers = removed.is_err();
        if let Err(error) = removed {
            told::host_failed(self.record.id, "remove the files of what is archived", &error);
            self.look_later();
        }
        self.shared.snapshots.may_be_garbage();
    }

    /// Brings its files back, if they are in an archive; it is on its way to run.
    pub(super) async fn fetch_back(&mut self) -> Result<(), OperationError> {
        let Some(archive_id) = self.record.archive else { return Ok(()) };
        let progress = archives::until_closing(&self.shared);
        self.progress = Some(progress.clone());
        let fetched = self.fetch(archive_id, &progress).await;
        self.progress = None;
        let Err(error) = fetched else {
            let what = AuditKind::SandboxUnarchived { archive_id };
            self.shared.oversight.tell(Some(self.record.id), what);
            return Ok(());
        };
        let cause = chain(&error);
        let cause = EventKind::Undone { cause };
        self.settle(Step::Archived, None, cause).await;
        self.clear_away().await;
        Err(self.not_archived(Verb::Resume, error))
    }

    async fn fetch(
        &mut self,
        archive: ArchiveId,
        progress: &Arc<Progress>,
    ) -> Result<(), ArchiveError> {
        let (id, shared) = (self.record.id, self.shared.clone());
        let archives = shared.archives.clone().ok_or(ArchiveError::NoPlace)?;
        let host = |source: BackendError| ArchiveError::Host { source };
        let _turn = self.meanwhile(archives.turn()).await?;
        // An earlier attempt may have left something.
        self.call(|backend, id| backend.remove(id)).await.map_err(host)?;
        let image = self.record.image.clone();
        let fetched = archives::fetch_sandbox(&shared, &archives, archive, (id, &image), progress);
        let layers = self.meanwhile(fetched).await?;
        // Nothing is collected before the sandbox is above them.
        let making = shared.snapshots.layers.read().await;
        self.meanwhile(archives::place(&shared, &layers)).await?;
        let spec = Spec { layer: layers.last().copied(), ..self.record.spec() };
        let reports = Progress::new(Instant::now());
        let made = self.call(move |backend, id| backend.create(id, &spec, &reports)).await;
        drop(making);
        shared.snapshots.taken_above(layers.len());
        made.map_err(host)
    }

    /// Whether its files are where this server has no way to.
    pub(super) fn is_stranded(&self) -> bool {
        self.record.archive.is_some() && self.shared.archives.is_none() && !self.leaves_archive
    }

    pub(super) fn not_archived(&self, verb: Verb, source: ArchiveError) -> OperationError {
        let (id, state) = (self.record.id, self.record.state);
        match source {
            ArchiveError::Sandbox(error) => error,
            source => OperationError::Archive { id, verb, state, source: Box::new(source) },
        }
    }

    /// Takes away an archive that it does not need, if there is one.
    async fn drop_stale(&mut self, archives: &Arc<Archives>) -> Result<(), ArchiveError> {
        self.chores.dropping = None;
        if let Some(stale) = self.record.stale_archive {
            self.meanwhile(archives.forget(stale)).await?;
            self.record.stale_archive = None;
        }
        Ok(())
    }

    /// Takes away all archives of one that is deleted.
    pub(super) async fn drop_archives(&mut self) -> Result<(), ArchiveError> {
        if self.record.stale_archive.is_none() && self.record.archive.is_none() {
            return Ok(());
        }
        let Some(archives) = self.shared.archives.clone() else {
            let (id, archive) = (self.record.id, self.record.archive.or(self.record.stale_archive));
            tracing::warn!(sandbox = %id, ?archive, "its archive stays: this server has no place");
            return Ok(());
        };
        let mut closing = self.shared.closing();
        let work = async {
            self.drop_stale(&archives).await?;
            self.record.is_here();
            self.drop_stale(&archives).await
        };
        tokio::select! {
            done = work => done,
            _ = closing.wait_for(|&is_closing| is_closing) => Err(ArchiveError::BrokenOff),
        }
    }

    fn look_later(&mut self) {
        self.chores.at = Some(self.shared.clock.now().after(RETRY_AFTER));
    }

    /// Does what is left to be done, or has it done.
    pub(super) async fn do_chores(&mut self) {
        let outcome = self.chores.dropping.as_ref().map(|it| (it.archive, *it.outcome.borrow()));
        if let Some((archive, outcome)) = outcome {
            let is_over = self.chores.dropping.as_ref().is_some_and(|it| it.work.is_finished());
            if outcome.is_none() && !is_over {
                self.chores.at = None;
                return;
            }
            self.chores.dropping = None;
            let is_gone = outcome == Some(true);
            if is_gone && self.record.stale_archive == Some(archive) {
                self.record.stale_archive = None;
                // If it cannot be written, the next start looks for it once more.
                self.write_as(None, Fate::Keep).await.unwrap_or_default();
            } else if !is_gone {
                self.look_later();
            }
            return;
        }
        self.chores.at = None;
        if self.record.state == State::Failed {
            // Who knows what of it can be used still.
            return;
        }
        if self.chores.has_leftovers && self.record.state == State::Archived {
            self.clear_away().await;
        }
        let (Some(archive), Some(archives)) =
            (self.record.stale_archive, self.shared.archives.clone())
        else {
            return;
        };
        let (told, outcome) = watch::channel(None);
        let id = self.record.id;
        let work = tokio::spawn(async move {
            let dropped = archives.forget(archive).await;
            if let Err(error) = &dropped {
                let cause = chain(error);
                tracing::warn!(sandbox = %id, %archive, cause, "what it does not need stays");
            }
            told.send_replace(Some(dropped.is_ok()));
        });
        self.chores.dropping = Some(Dropping { archive, outcome, work: work.abort_handle() });
    }
}
