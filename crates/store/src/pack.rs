//! A directory as a tar archive, in memory that does not grow with it.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};

/// Names that are told of those that were left out.
const TOLD_MAX: usize = 10;

/// What is not in an archive.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// How many names.
    pub count: u64,
    /// The first of them, with the reason.
    pub names: Vec<(PathBuf, String)>,
}

/// Why there is no archive.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// A directory cannot be read, or a file not be read to its end.
    #[error("could not read {}", .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nobody takes it any more.
    #[error("could not write the archive")]
    Write(#[source] io::Error),
}

/// Packs what is in `root`, but nothing that `is_hidden` says is, with the rights of who
/// calls. Links are packed as links. Sockets, pipes and devices are left out, and files that
/// may not be read. Owners are nobody's.
///
/// # Errors
/// What was written before is no archive.
pub fn pack(
    root: &Path,
    is_hidden: &dyn Fn(&Path, bool) -> bool,
    out: impl Write,
) -> Result<LeftOut, PackError> {
    pack_as(root, is_hidden, Times::Kept, out)
}

/// The same with one time for all, so that the same content gives the same archive.
///
/// # Errors
/// What was written before is no archive.
pub fn pack_alike(
    root: &Path,
    is_hidden: &dyn Fn(&Path, bool) -> bool,
    out: impl Write,
) -> Result<LeftOut, PackError> {
    pack_as(root, is_hidden, Times::Alike, out)
}

/// Which times files have in an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Times {
    /// Their own.
    Kept,
    /// [`ALIKE`].
    Alike,
}

/// The 1st of January 2000. Zip archives, such as Python's wheels, can hold no time before 1980.
const ALIKE: u64 = 946_684_800;

fn pack_as(
    root: &Path,
    is_hidden: &dyn Fn(&Path, bool) -> bool,
    times: Times,
    out: impl Write,
) -> Result<LeftOut, PackError> {
    let left_out = LeftOut::default();
    let mut packer = Packer { builder: Builder::new(out), is_hidden, times, left_out };
    packer.directory(root, Path::new(""))?;
    packer.builder.finish().map_err(PackError::Write)?;
    Ok(packer.left_out)
}

struct Packer<'a, W: Write> {
    builder: Builder<W>,
    is_hidden: &'a dyn Fn(&Path, bool) -> bool,
    times: Times,
    left_out: LeftOut,
}

impl<W: Write> Packer<'_, W> {
    fn directory(&mut self, directory: &Path, at: &Path) -> Result<(), PackError> {
        let failed = |source| PackError::Read { path: directory.to_owned(), source };
        let mut entries: Vec<_> =
            fs::read_dir(directory).map_err(failed)?.collect::<Result<_, _>>().map_err(failed)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (path, name) = (entry.path(), at.join(entry.file_name()));
            // What is gone meanwhile is not there.
            let Ok(found) = entry.metadata() else { continue };
            if (self.is_hidden)(&name, found.is_dir()) {
                continue;
            }
            self.entry(&path, &name, &found)?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, name: &Path, found: &Metadata) -> Result<(), PackError> {
        let failed = |source| PackError::Read { path: path.to_owned(), source };
        let kind = found.file_type();
        if kind.is_dir() {
            let mut header = self.header(found, EntryType::Directory);
            self.builder.append_data(&mut header, name, io::empty()).map_err(PackError::Write)?;
            return self.directory(path, name);
        }
        if kind.is_symlink() {
            let target = fs::read_link(path).map_err(failed)?;
            let mut header = self.header(found, EntryType::Symlink);
            return self.builder.append_link(&mut header, name, target).map_err(PackError::Write);
        }
        if !kind.is_file() {
            let what = match () {
                () if kind.is_socket() => "a socket",
                () if kind.is_fifo() => "a pipe",
                () => "a device",
            };
            self.leave_out(name, what.to_owned());
            return Ok(());
        }
        match File::open(path) {
            Ok(file) => self.file(file, path, name),
            Err(error) => {
                self.leave_out(name, error.to_string());
                Ok(())
            }
        }
    }

    fn file(&mut self, file: File, path: &Path, name: &Path) -> Result<(), PackError> {
        let failed = |source| PackError::Read { path: path.to_owned(), source };
        // The length that is promised is that of the file that was opened.
        let found = file.metadata().map_err(failed)?;
        let mut header = self.header(&found, EntryType::Regular);
        header.set_size(found.len());
        let mut exact = Exact { file, left: found.len(), fault: None };
        let written = self.builder.append_data(&mut header, name, &mut exact);
        match exact.fault {
            Some(source) => Err(failed(source)),
            None => written.map_err(PackError::Write),
        }
    }

    fn header(&self, found: &Metadata, kind: EntryType) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        header.set_mode(found.permissions().mode() & 0o777);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(match self.times {
            Times::Kept => u64::try_from(found.mtime()).unwrap_or_default(),
            Times::Alike => ALIKE,
        });
        header
    }

    fn leave_out(&mut self, name: &Path, reason: String) {
        self.left_out.count += 1;
        if self.left_out.names.len() < TOLD_MAX {
            self.left_out.names.push((name.to_owned(), reason));
        }
    }
}

/// As many bytes as the header has promised, or a fault.
struct Exact {
    file: File,
    left: u64,
    fault: Option<io::Error>,
}

impl Exact {
    fn failed(&mut self, error: io::Error) -> io::Error {
        let told = io::Error::new(error.kind(), error.to_string());
        self.fault = Some(error);
        told
    }
}

impl Read for Exact {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if room == 0 {
            return Ok(0);
        }
        match self.file.read(&mut buffer[..room]) {
            Ok(0) => {
                let cut = "it became shorter while it was read";
                Err(self.failed(io::Error::new(io::ErrorKind::UnexpectedEof, cut)))
            }
            Ok(length) => {
                self.left -= length as u64;
                Ok(length)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => Err(self.failed(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn names(archive: &[u8]) -> Vec<String> {
        let mut archive = tar::Archive::new(archive);
        let entries = archive.entries().unwrap();
        entries.map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect()
    }

    #[test]
    fn what_is_hidden_or_no_file_is_not_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("src/deep")).unwrap();
        fs::create_dir(root.join("secret")).unwrap();
        for name in ["a", "src/deep/b", "secret/key", ".env"] {
            fs::write(root.join(name), name).unwrap();
        }
        symlink("/etc/passwd", root.join("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
        let mut archive = Vec::new();
        let hidden = |name: &Path, is_directory: bool| {
            name == Path::new(".env") || (is_directory && name.ends_with("secret"))
        };
        let left_out = pack(root, &hidden, &mut archive).unwrap();
        assert_eq!(names(&archive), ["a", "link", "src", "src/deep", "src/deep/b"]);
        assert_eq!(left_out.names, [(PathBuf::from("socket"), "a socket".to_owned())]);
        // Without the rule it is there.
        let mut whole = Vec::new();
        pack(root, &|_, _| false, &mut whole).unwrap();
        assert!(names(&whole).iter().any(|name| name == "secret/key"));
    }

    #[test]
    fn the_same_content_gives_the_same_archive_whenever_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        let packed = |at: u64| {
            fs::write(&file, "a").unwrap();
            let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(at);
            File::open(&file).unwrap().set_modified(at).unwrap();
            let [mut alike, mut kept] = [Vec::new(), Vec::new()];
            pack_alike(dir.path(), &|_, _| false, &mut alike).unwrap();
            pack(dir.path(), &|_, _| false, &mut kept).unwrap();
            (alike, kept)
        };
        let (first, second) = (packed(1_000_000_000), packed(1_000_000_007));
        assert_eq!(first.0, second.0);
        assert_ne!(first.1, second.1);
    }

    #[test]
    fn who_takes_no_more_ends_it() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "a").unwrap();
        let failed = pack(dir.path(), &|_, _| false, Full).unwrap_err();
        assert!(matches!(failed, PackError::Write(_)), "{failed}");
        let missing = pack(&dir.path().join("none"), &|_, _| false, io::sink()).unwrap_err();
        assert!(matches!(missing, PackError::Read { .. }), "{missing}");
    }
}
