//! What is mounted where, from `/proc/self/mountinfo`.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// One mount of a table, as the kernel writes it.
pub(crate) struct Mount<'a> {
    /// The directory of the file system that is visible as the top of this mount.
    pub(crate) shown: &'a [u8],
    /// The mount point.
    pub(crate) at: &'a [u8],
    /// The file system's type and its own options.
    pub(crate) kind: &'a [u8],
    pub(crate) options: &'a [u8],
}

/// The mounts of a table.
///
/// Source: proc_pid_mountinfo(5): `id parent dev root mountpoint options
/// optional... - type source superoptions`.
pub(crate) fn mounts(table: &[u8]) -> impl Iterator<Item = Mount<'_>> {
    table.split(|byte| *byte == b'\n').filter_map(mount)
}

fn mount(line: &[u8]) -> Option<Mount<'_>> {
    let mut fields = line.split(|byte| *byte == b' ').skip(3);
    let (shown, at) = (fields.next()?, fields.next()?);
    // The optional fields end with a dash.
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = fields.next()?;
    Some(Mount { shown, at, kind, options: fields.nth(1).unwrap_or_default() })
}

/// Mount points below `directory` (a real path), without itself.
///
/// # Errors
///
/// If the table cannot be read.
pub fn below(directory: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(points_below(&std::fs::read("/proc/self/mountinfo")?, directory))
}

fn points_below(table: &[u8], directory: &Path) -> Vec<PathBuf> {
    let mut points: Vec<PathBuf> = mounts(table)
        .map(|mount| unescape(mount.at))
        .filter(|point| point != directory && point.starts_with(directory))
        .collect();
    points.sort();
    points.dedup();
    points
}

/// Undoes the kernel's octal escapes (`\040` for a space).
pub(crate) fn unescape(bytes: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = (first == b'\\')
            .then(|| tail.get(..3))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(byte) => {
                plain.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                plain.push(first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(plain).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_unescaped_and_compared_by_components() {
        let table = b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            23 22 0:5 / /p rw - tmpfs x rw\n\
            24 23 0:6 / /p/a\\040b rw - tmpfs x rw\n\
            25 23 0:6 / /p/\xff rw - tmpfs x rw\n\
            26 23 0:6 / /p/\xff rw - tmpfs x rw\n\
            27 22 0:7 / /pq rw - tmpfs x rw\ngarbage\n";
        let found = points_below(table, Path::new("/p"));
        let odd = PathBuf::from(OsString::from_vec(b"/p/\xff".to_vec()));
        assert_eq!(found, [PathBuf::from("/p/a b"), odd]);
        assert!(points_below(table, Path::new("/p/a b")).is_empty());
    }
}
