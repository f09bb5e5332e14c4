//! What a volume holds, as a tar archive that is made while it is sent.
//!
//! Whoever writes could exchange a directory for a link while it is read, and the server reads with its
//! own rights. So nobody writes meanwhile: who does now keeps the volume from being exported, and who
//! begins to is refused. A snapshot, to which nobody writes ever, can always be exported.

use super::copy::Quiet;
use super::{KeptVolume, Shared, not_found};
use crate::error::{VolumeError, chain};
use crate::pieces::Pieces;
use atoll_api::volume::VolumeRef;
use bytes::Bytes;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::thread;
use tokio::sync::mpsc;

/// Pieces that wait for who takes them slowly.
const PIECES: usize = 2;

/// Address space for reading directories in directories, which nest a few thousand deep.
const STACK_BYTES: usize = 64 << 20;

/// An archive on its way.
#[derive(Debug)]
pub struct Export {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
}

impl Export {
    /// The next piece; nothing at its end.
    ///
    /// # Errors
    /// What came before is no archive then.
    pub async fn next(&mut self) -> io::Result<Option<Bytes>> {
        self.pieces.recv().await.transpose()
    }
}

/// Begins to export one. It is given up if what this gives is dropped.
pub(crate) fn export(shared: &Arc<Shared>, volume: &VolumeRef) -> Result<Export, VolumeError> {
    let found = shared.volumes.book().find(volume).cloned();
    let KeptVolume { id, name, host_path, .. } = found.ok_or_else(|| not_found(volume))?;
    if host_path.is_some() {
        // Others than sandboxes may write to it.
        return Err(VolumeError::OfHost { name, what: "exported" });
    }
    let quiet = Quiet::begin(shared, id).ok_or_else(|| not_found(volume))?;
    if let Some(&by) = quiet.writers().first() {
        return Err(VolumeError::Written { name, by });
    }
    let (sender, pieces) = mpsc::channel(PIECES);
    let backend = shared.backend.clone();
    let work = move || {
        let _quiet = quiet;
        let mut out = Pieces::new(sender);
        let written = backend.export_volume(id, &mut out);
        let written = written.and_then(|()| out.flush().map_err(crate::backend::unsent));
        if let Err(error) = written {
            tracing::warn!(volume = %id, cause = chain(&error), "an export breaks off");
            out.break_off(io::Error::other("the volume could not be read to its end"));
        }
    };
    let spawned = thread::Builder::new().name("atoll-export".to_owned()).stack_size(STACK_BYTES);
    spawned.spawn(work).map_err(|source| VolumeError::Host {
        name,
        source: crate::backend::BackendError::Call { step: "start a thread", source },
    })?;
    Ok(Export { pieces })
}
