//! Layers of a machine in memory as files on the real one, for as long as somebody looks at them.

use super::files::Files;
use super::{Call, Fake, Kept, Moment};
use crate::backend::{BackendError, Fill, Progress, Show};
use atoll_api::id::LayerId;
use atoll_store::Format;
use atoll_store::archive::{Destination, Owners, Source};
use atoll_store::room::{Quota, Room};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const PARTS: [&str; 1] = ["home"];

fn failed(source: io::Error) -> BackendError {
    BackendError::Call { step: "use a directory for a layer", source }
}

/// A directory that is gone with this.
struct Directory(PathBuf);

impl Directory {
    fn new() -> io::Result<Self> {
        let number = getrandom::u64().map_err(io::Error::other)?;
        let path = std::env::temp_dir().join(format!("atoll-fake-{number:016x}"));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn owners() -> Owners {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Owners::One { uid, gid, inside: 1000 }
}

/// Names are digits, since a path has slashes; what is gone is an empty link.
fn write(files: &Files, root: &Path) -> io::Result<()> {
    let home = root.join(PARTS[0]);
    fs::create_dir(&home)?;
    for (path, bytes) in files {
        let name: String = path.bytes().map(|byte| format!("{byte:02x}")).collect();
        match bytes {
            Some(bytes) => File::create(home.join(name))?.set_len(*bytes)?,
            None => std::os::unix::fs::symlink("gone", home.join(name))?,
        }
    }
    // So that it is the same whenever it is packed.
    for entry in fs::read_dir(&home)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            File::open(entry.path())?.set_modified(std::time::UNIX_EPOCH)?;
        }
    }
    File::open(&home)?.set_modified(std::time::UNIX_EPOCH)
}

fn read(root: &Path) -> io::Result<Files> {
    let mut files = Files::new();
    for entry in fs::read_dir(root.join(PARTS[0]))? {
        let entry = entry?;
        let name = entry.file_name().into_string().unwrap_or_default();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = name.as_bytes().chunks(2).map(byte).collect();
        let path = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        let path = path.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        let found = entry.metadata()?;
        files.insert(path, found.is_file().then_some(found.len()));
    }
    Ok(files)
}

impl Fake {
    pub(super) fn show(&self, layer: LayerId, show: Show<'_>) -> Result<(), BackendError> {
        self.host.at(Call::Show, Moment::Before)?;
        let chain = self.host.state().onto(layer)?;
        for layer in chain {
            let files = self.host.state().layers.get(&layer).cloned().unwrap_or_default().files;
            let directory = Directory::new().map_err(failed)?;
            write(&files, &directory.0).map_err(failed)?;
            let (owners, format) = (owners(), Format::User);
            show(layer, &Source { root: &directory.0, parts: &PARTS, owners, format })?;
        }
        self.host.at(Call::Show, Moment::After)
    }

    pub(super) fn stage(
        &self,
        layers: &[LayerId],
        fill: Fill<'_>,
        progress: &Progress,
    ) -> Result<(), BackendError> {
        self.host.at(Call::Stage, Moment::Before)?;
        let mut staged = Vec::new();
        for (number, layer) in layers.iter().enumerate() {
            if progress.is_cancelled() {
                return Err(BackendError::Cancelled);
            }
            let directory = Directory::new().map_err(failed)?;
            let quota = Quota { free_bytes: 0, images_bytes: None };
            let room = Room::new(&directory.0, quota, 0).map_err(failed)?;
            let to = Destination {
                root: &directory.0,
                parts: &PARTS,
                owners: owners(),
                format: Format::User,
                room: &room,
            };
            fill(number, &to)?;
            let files = read(&directory.0).map_err(failed)?;
            staged.push((*layer, Kept { below: layers[..number].to_vec(), files }));
            self.host.at(Call::Stage, Moment::Midway)?;
        }
        self.host.state().staged.extend(staged);
        self.host.at(Call::Stage, Moment::After)
    }

    pub(super) fn place(&self, layers: &[LayerId]) -> Result<(), BackendError> {
        self.host.at(Call::Place, Moment::Before)?;
        for layer in layers {
            let mut state = self.host.state();
            let staged = state.staged.remove(layer);
            let staged = staged.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
            state.layers.insert(*layer, staged);
            drop(state);
            if Some(layer) != layers.last() {
                self.host.at(Call::Place, Moment::Midway)?;
            }
        }
        self.host.at(Call::Place, Moment::After)
    }
}
