//! Snapshots of a sandbox, and the way back to one.

use super::{Owner, Reply};
use crate::backend::{BackendError, Processes, Progress, Taken};
use crate::error::{OperationError, SnapshotError};
use crate::records::Fate;
use crate::snapshots::{How, Kept};
use crate::state::Verb;
use atoll_api::audit::AuditKind;
use atoll_api::id::{BuildId, ID_BYTES, LayerId, SnapshotId};
use atoll_api::sandbox::{EventKind, State};
use atoll_api::snapshot::{CreateSnapshot, Snapshot, SnapshotWay};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

impl Owner {
    /// Takes one. If it fails the sandbox goes on as it was.
    pub(super) async fn snapshot(
        &mut self,
        request: &CreateSnapshot,
        build: Option<BuildId>,
    ) -> Result<Snapshot, SnapshotError> {
        let id = self.record.id;
        let processes = self.can_snapshot()?;
        self.chores.forget_layer();
        let random = || {
            let mut bytes = [0; ID_BYTES];
            getrandom::fill(&mut bytes).map(|()| bytes)
        };
        let [snapshot, layer] = [random(), random()];
        let unmade = |source| OperationError::Random { id, source };
        let snapshot = SnapshotId::from_random(snapshot.map_err(unmade)?);
        let layer = LayerId::from_random(layer.map_err(unmade)?);
        let mut kept = Kept::of(&self.record, snapshot, layer, request, self.shared.clock.now());
        kept.build = build;
        kept.parent = kept.parent.filter(|parent| self.shared.snapshots.get(*parent).is_some());
        let (shared, begun) = (self.shared.clone(), Instant::now());
        shared.snapshots.begin(kept.clone(), &shared.records).await?;
        // Nothing is collected meanwhile.
        let making = shared.snapshots.layers.read().await;
        let progress = Arc::new(Progress::new(begun));
        self.progress = Some(progress.clone());
        let made = match processes {
            Processes::Running => self.frozen_snapshot(layer, &progress).await,
            as_they_are => {
                let call = move |backend: &dyn crate::backend::Backend, id| {
                    backend.snapshot(id, layer, as_they_are, &progress)
                };
                self.call(call).await.map(|taken| (taken, Duration::ZERO))
            }
        };
        // The sandbox goes on while this is brought to the disk.
        let made = match made {
            Ok((taken, frozen)) if taken.way != SnapshotWay::Rename => self
                .call(move |backend, _| backend.sync_layer(layer))
                .await
                .map(|()| (taken, frozen)),
            made => made,
        };
        self.progress = None;
        drop(making);
        let (taken, frozen) = match made {
            Ok(made) => made,
            Err(source) => {
                self.unmake_snapshot(snapshot).await;
                let state = self.record.state;
                return Err(SnapshotError::Host { id, state, what: "snapshot", source });
            }
        };
        shared.snapshots.taken_above(taken.below);
        let kept = Kept { taken: Some(How::new(taken, begun.elapsed(), frozen)), ..kept };
        shared.snapshots.finish(kept.clone(), &shared.records).await?;
        self.record.snapshot = Some(snapshot);
        let what = EventKind::Snapshotted { snapshot_id: snapshot };
        // If it cannot be written, the next write carries it.
        self.write(what, Fate::Keep).await.unwrap_or_else(|_| self.publish());
        self.shared.oversight.tell(Some(id), AuditKind::SnapshotTaken { snapshot_id: snapshot });
        Ok(kept.view().expect("it says how it was taken"))
    }

    /// What its processes are for the backend, if one can be taken now.
    fn can_snapshot(&self) -> Result<Processes, SnapshotError> {
        let (id, state, tier) = (self.record.id, self.record.state, self.record.tier);
        let can = self.shared.backend.capabilities();
        let lacks = |capability| OperationError::Unsupported { id, tier, capability };
        if !can.snapshot {
            return Err(lacks("snapshot").into());
        }
        match state {
            State::Running if !can.pause => Err(SnapshotError::CannotFreeze { id }),
            State::Running => Ok(Processes::Running),
            State::Paused => Ok(Processes::Frozen),
            State::Stopped => Ok(Processes::None),
            State::Creating
            | State::Pausing
            | State::Resuming
            | State::Stopping
            | State::Archived
            | State::Failed
            | State::Deleted => Err(SnapshotError::WrongState { id, state, what: "snapshot" }),
        }
    }

    /// Takes the layer while all processes stand still; tells how long they did.
    async fn frozen_snapshot(
        &mut self,
        layer: LayerId,
        progress: &Arc<Progress>,
    ) -> Result<(Taken, Duration), BackendError> {
        let ahead = progress.clone();
        self.call(move |backend, id| backend.copy_ahead(id, layer, &ahead)).await?;
        self.expect_silence(true);
        let since = Instant::now();
        let taken = match self.call(|backend, id| backend.freeze(id)).await {
            Ok(()) => {
                let progress = progress.clone();
                self.call(move |backend, id| {
                    backend.snapshot(id, layer, Processes::Frozen, &progress)
                })
                .await
            }
            // Some of its processes may be frozen.
            Err(error) => Err(error),
        };
        self.go_on("a snapshot").await;
        taken.map(|taken| (taken, since.elapsed()))
    }

    /// Lets its processes go on that stood still for something.
    async fn go_on(&mut self, what: &str) {
        match self.call(|backend, id| backend.thaw(id)).await {
            Ok(()) => self.expect_silence(false),
            Err(BackendError::NotFound { .. }) => self.ended().await,
            Err(error) => {
                let cause = format!("it stood still for {what} and does not go on: {error}");
                self.give_up(cause).await;
            }
        }
    }

    /// Has its processes stand still until `until` ends.
    pub(super) async fn stand_still(&mut self, mut until: oneshot::Receiver<()>, reply: Reply<()>) {
        let (id, state, tier) = (self.record.id, self.record.state, self.record.tier);
        if until.try_recv() == Err(TryRecvError::Closed) {
            return;
        }
        match state {
            State::Running if !self.shared.backend.capabilities().pause => {
                let capability = "pause";
                reply.give(Err(OperationError::Unsupported { id, tier, capability }));
            }
            State::Running => {
                self.expect_silence(true);
                match self.call(|backend, id| backend.freeze(id)).await {
                    Ok(()) => {
                        reply.give(Ok(()));
                        self.meanwhile(until).await.unwrap_or_default();
                        self.go_on("a copy of a volume").await;
                    }
                    // Some of its processes may be frozen.
                    Err(source) => {
                        self.go_on("a copy of a volume").await;
                        let state = self.record.state;
                        let verb = Verb::Pause;
                        reply.give(Err(OperationError::Backend { id, verb, state, source }));
                    }
                }
            }
            // It may write all the same.
            State::Failed => {
                reply.give(Err(OperationError::WrongState { id, verb: Verb::Pause, state }));
            }
            // Nothing of it goes on before it is asked for that again.
            State::Creating
            | State::Pausing
            | State::Paused
            | State::Resuming
            | State::Stopping
            | State::Stopped
            | State::Archived
            | State::Deleted => {
                reply.give(Ok(()));
                self.meanwhile(until).await.unwrap_or_default();
            }
        }
    }

    /// Forgets one that was not taken. What cannot be forgotten now the next start forgets.
    async fn unmake_snapshot(&self, snapshot: SnapshotId) {
        let shared = &self.shared;
        shared.snapshots.forget(snapshot, &shared.records).await.unwrap_or_default();
    }

    /// Puts the sandbox back to a snapshot. Its processes end, and one that ran starts anew.
    pub(super) async fn restore(&mut self, snapshot: SnapshotId) -> Result<(), SnapshotError> {
        let (id, state) = (self.record.id, self.record.state);
        let (shared, what) = (self.shared.clone(), "restore");
        let gone = SnapshotError::NotFound { id: snapshot };
        let kept = shared.snapshots.get(snapshot).ok_or(gone)?;
        if kept.image != self.record.image {
            return Err(SnapshotError::OtherImage { id, snapshot });
        }
        match state {
            State::Running | State::Paused => {
                self.act(crate::state::Verb::Stop, what).await?;
            }
            State::Stopped => {}
            _ => return Err(SnapshotError::WrongState { id, state, what }),
        }
        if self.record.state != State::Stopped {
            let state = self.record.state;
            return Err(SnapshotError::WrongState { id, state, what });
        }
        self.chores.forget_layer();
        let making = shared.snapshots.layers.read().await;
        let layer = kept.layer;
        let restored = self.call(move |backend, id| backend.restore(id, layer)).await;
        drop(making);
        if let Err(source) = restored {
            let state = self.record.state;
            return Err(SnapshotError::Host { id, state, what, source });
        }
        shared.snapshots.may_be_garbage();
        self.record.snapshot = Some(snapshot);
        let told = EventKind::Restored { snapshot_id: snapshot };
        self.write(told, Fate::Keep).await.unwrap_or_else(|_| self.publish());
        self.shared.oversight.tell(Some(id), AuditKind::SandboxRestored { snapshot_id: snapshot });
        if state == State::Running {
            self.act(crate::state::Verb::Resume, what).await?;
        }
        Ok(())
    }
}
