//! What a run never hands in: the program's own files, and directories that lie
//! outside of the view.

use crate::error::CliError;
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

/// Refuses a place that could be written from inside and holds, or lies in, one of
/// `own`: what is kept there for other projects would be open to this one.
pub(super) fn keep_out<'a>(
    writable: impl Iterator<Item = &'a Path>,
    own: &[PathBuf],
) -> Result<(), CliError> {
    let own: Vec<PathBuf> = own.iter().map(|path| real(path)).collect();
    for path in writable {
        if let Some(own) = own.iter().find(|own| own.starts_with(path) || path.starts_with(own)) {
            let (inner, outer) =
                if own.starts_with(path) { (&**own, path) } else { (path, &**own) };
            let text = format!("{} lies inside {}", inner.display(), outer.display());
            let why = format!("atoll keeps files of other projects in {}", own.display());
            return Err(CliError::new(text).because(why).hint(
                "name another directory, or set XDG_STATE_HOME and XDG_CACHE_HOME to \
                 directories outside the project",
            ));
        }
    }
    Ok(())
}

/// Links resolved in as much of the path as there is.
fn real(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (std::fs::canonicalize(above), path.strip_prefix(above)) {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_owned()
}

/// Refuses a standard descriptor from which other paths of the host begin: a
/// directory, or what was opened for its path alone. By one, modes and times could
/// be changed and sockets reached that no mount shows.
pub(super) fn standard_is_a_stream(number: u8, fd: BorrowedFd<'_>) -> Result<(), CliError> {
    let failed = |error| CliError::new("a standard descriptor cannot be read").because(error);
    let mode = fstat(fd).map_err(|error| failed(std::io::Error::from(error)))?.st_mode;
    let is_directory = FileType::from_raw_mode(mode) == FileType::Directory;
    let is_path = fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::PATH));
    if !is_directory && !is_path {
        return Ok(());
    }
    let name = ["standard input", "standard output", "standard error"]
        .get(usize::from(number))
        .copied()
        .unwrap_or("a descriptor");
    Err(CliError::new(format!("{name} is a directory"))
        .hint("give it a file, a pipe or /dev/null: from a directory the command would reach out"))
}
