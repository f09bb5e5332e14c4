//! The files that a step copies: packed alike for the same content, so that their digest says
//! whether they are others than the last time.

use crate::error::CliError;
use crate::policy::ignore::IgnoreSet;
use crate::policy::{PolicyFlags, load};
use atoll_api::template::FilesDigest;
use atoll_client::Upload;
use atoll_engine::pieces::Pieces;
use atoll_store::pack::{LeftOut, PackError, pack_alike};
use sha2::{Digest as _, Sha256};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

/// The directory of a template, and what is hidden in the project that it is in.
pub(super) struct Directory {
    path: PathBuf,
    project: PathBuf,
    hidden: Arc<IgnoreSet>,
}

/// What a step copies: the content of a directory, or one file.
#[derive(Clone)]
pub(super) struct Source {
    /// The directory that is packed.
    root: PathBuf,
    /// The one name in it that is.
    only: Option<OsString>,
    /// Where the directory is in the project, whose ignore files count.
    below: PathBuf,
    hidden: Arc<IgnoreSet>,
}

impl Directory {
    /// Looks for ignore files, once for all steps.
    pub(super) fn of(path: PathBuf) -> Result<Self, CliError> {
        let mut flags = PolicyFlags::default();
        flags.project = Some(path.clone());
        let loaded = load(&flags)?;
        let (hidden, _) = loaded.scan()?;
        Ok(Self { path, project: loaded.project.root, hidden: Arc::new(hidden) })
    }

    /// What is at a path below it.
    pub(super) fn source(&self, from: &str) -> Result<Source, CliError> {
        let from = self.path.join(from);
        let told = || CliError::new(format!("cannot copy {}", from.display()));
        let whole = from.canonicalize().map_err(|error| told().because(error))?;
        if !whole.starts_with(&self.path) {
            let outside = "it leads out of the directory of the template";
            return Err(told().because(outside));
        }
        let (root, only) = match whole.is_dir() {
            true => (whole, None),
            false => {
                let parent = whole.parent().map(Path::to_owned).unwrap_or_default();
                (parent, whole.file_name().map(OsString::from))
            }
        };
        let below = root.strip_prefix(&self.project).unwrap_or(Path::new("")).to_owned();
        Ok(Source { root, only, below, hidden: self.hidden.clone() })
    }
}

impl Source {
    fn pack(&self, out: impl Write) -> Result<LeftOut, PackError> {
        let is_hidden = |path: &Path, is_directory: bool| match &self.only {
            Some(only) if path.as_os_str() != only => true,
            _ => self.hidden.is_hidden(&self.below.join(path), is_directory).is_some(),
        };
        pack_alike(&self.root, &is_hidden, out)
    }

    fn failed(&self, error: &PackError) -> CliError {
        let source = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
        CliError::new(format!("cannot copy {}", self.root.display()))
            .because(format!("{error}: {source}"))
    }

    /// What the files are.
    pub(super) fn digest(&self) -> Result<FilesDigest, CliError> {
        let mut hashed = Hashed(Sha256::new());
        let left_out = self.pack(&mut hashed).map_err(|error| self.failed(&error))?;
        if let Some((name, reason)) = left_out.names.first() {
            let message = format!("cannot copy {}", self.root.join(name).display());
            let error = CliError::new(message).because(reason.clone());
            return Err(error.hint("hide it by a line in .atollignore, or make it readable"));
        }
        Ok(FilesDigest::from_bytes(hashed.0.finalize().into()))
    }

    /// The files as they are sent, and what tells how packing went.
    pub(super) fn begin(&self) -> (Upload, impl FnOnce() -> Result<(), CliError>) {
        let (sender, upload) = Upload::pieces(None);
        let source = self.clone();
        let packer = thread::spawn(move || {
            let mut pieces = Pieces::new(sender);
            let packed =
                source.pack(&mut pieces).and_then(|_| pieces.flush().map_err(PackError::Write));
            if packed.is_err() {
                pieces.break_off(io::Error::other("the files could not be packed"));
            }
            match packed {
                // Nobody took it any more, which the answer explains.
                Ok(()) | Err(PackError::Write(_)) => Ok(()),
                Err(error) => Err(source.failed(&error)),
            }
        });
        (upload, move || packer.join().expect("it does not panic"))
    }
}

struct Hashed(Sha256);

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
