//! Removing layers that nobody has.
//!
//! What has a layer says so before it is looked whether the layer is there, and until it is
//! written down elsewhere: by a pin, a file that its maker has locked. Who collects takes all
//! that is pinned and all roots together, under the lock that making a pin takes too; so nothing
//! goes that anybody could have seen.

use super::{LayerError, Layers};
use crate::digest::Digest;
use rustix::fs::FlockOperation;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;

const COLLECT: &str = "collect";
const PIN: &str = "pin-";

/// Keeps layers from being collected until it is dropped, or its process ends.
#[derive(Debug)]
pub struct Pin {
    path: PathBuf,
    _locked: File,
}

impl Drop for Pin {
    fn drop(&mut self) {
        // One that stays is no longer locked soon, and removed by who collects.
        std::fs::remove_file(&self.path).ok();
    }
}

/// What was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Collected {
    /// Layers.
    pub layers: u64,
    /// Bytes of their content.
    pub bytes: u64,
}

impl Layers {
    /// Pins layers, whether they are there or not.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn pin(&self, layers: &[Digest]) -> Result<Pin, LayerError> {
        self.make_pin(layers).map_err(|error| self.error(error))
    }

    fn make_pin(&self, layers: &[Digest]) -> io::Result<Pin> {
        let number = getrandom::u64().map_err(io::Error::other)?;
        let path = self.shelf.aside().join(format!("{PIN}{number:016x}"));
        let _collecting = self.shelf.lock(COLLECT)?;
        let mut file = File::options().write(true).create_new(true).open(&path)?;
        crate::disk::lock(&file)?;
        let text: String = layers.iter().map(|layer| format!("{layer}\n")).collect();
        file.write_all(text.as_bytes())?;
        Ok(Pin { path, _locked: file })
    }

    /// Removes all layers but those that are pinned and those of `roots`, which is asked while
    /// nobody can make a pin: what it does not name must not be used without one.
    ///
    /// # Errors
    ///
    /// When `roots` fails, or something cannot be read or removed. What was named is kept in any
    /// case.
    pub fn collect<E: From<LayerError>>(
        &self,
        roots: impl FnOnce() -> Result<BTreeSet<Digest>, E>,
    ) -> Result<Collected, E> {
        let error = |source| E::from(self.error(source));
        let mut collected = Collected::default();
        {
            let _collecting = self.shelf.lock(COLLECT).map_err(error)?;
            // Pins first: who gives one up has written down before who has the layers.
            let mut kept = self.pinned().map_err(error)?;
            kept.extend(roots()?);
            for (layer, info) in self.list()? {
                if !kept.contains(&layer) {
                    self.shelf.take_away(OsStr::new(&layer.file_name())).map_err(error)?;
                    collected.layers += 1;
                    collected.bytes += info.bytes;
                }
            }
        }
        self.shelf.sweep().map_err(error)?;
        Ok(collected)
    }

    /// What others are about to use.
    fn pinned(&self) -> io::Result<BTreeSet<Digest>> {
        let mut pinned = BTreeSet::new();
        for entry in std::fs::read_dir(self.shelf.aside())? {
            let entry = entry?;
            if !entry.file_name().as_encoded_bytes().starts_with(PIN.as_bytes()) {
                continue;
            }
            let mut file = match File::open(entry.path()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                // Its maker is gone.
                std::fs::remove_file(entry.path()).ok();
                continue;
            }
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            pinned.extend(text.lines().filter_map(|line| line.parse::<Digest>().ok()));
        }
        Ok(pinned)
    }
}
