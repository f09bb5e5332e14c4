//! One entry of a tar archive with its long names put together.
//!
//! The tar crate would join long names itself, but reads them into memory at
//! whatever length the header says; here they have a limit.
//!
//! Source: tar(5), pax(1) extended headers.

use super::unpack::UnpackError;
use crate::node::Time;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use tar::{Entry, EntryType};

/// A name, or a block of pax records, may be this long.
const LONGEST_NAME: u64 = 64 * 1024;
const LONGEST_RECORDS: u64 = 1 << 20;

/// How records name extended attributes, as star(1) began.
const ATTRIBUTE: &[u8] = b"SCHILY.xattr.";

/// Longest name of an attribute (`XATTR_NAME_MAX`).
const LONGEST_ATTRIBUTE: usize = 255;

/// What is said about the next entry by special entries before it.
#[derive(Debug, Default)]
pub(super) struct Pending {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    mtime: Option<Time>,
    uid: Option<u64>,
    gid: Option<u64>,
    size: Option<u64>,
    attributes: Vec<(OsString, Vec<u8>)>,
    left_out: Vec<&'static str>,
    is_sparse: bool,
}

/// An entry's description.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) kind: EntryType,
    pub(super) path: PathBuf,
    pub(super) link: Option<PathBuf>,
    /// Length of the content.
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) uid: u64,
    pub(super) gid: u64,
    pub(super) mtime: Time,
    /// Extended attributes to set.
    pub(super) attributes: Vec<(OsString, Vec<u8>)>,
    /// Kinds of those that are not.
    pub(super) left_out: Vec<&'static str>,
}

impl Pending {
    /// Takes in an entry that only describes the next one; gives whether it was
    /// one.
    pub(super) fn absorb<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
    ) -> Result<bool, UnpackError> {
        match entry.header().entry_type() {
            EntryType::GNULongName => self.path = Some(trimmed(read(entry, LONGEST_NAME)?)),
            EntryType::GNULongLink => self.link = Some(trimmed(read(entry, LONGEST_NAME)?)),
            EntryType::XHeader => {
                let records = read(entry, LONGEST_RECORDS)?;
                self.take_records(&records)?;
            }
            // Says the same about all entries: comments, mostly.
            EntryType::XGlobalHeader => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn take_records(&mut self, records: &[u8]) -> Result<(), UnpackError> {
        for record in tar::PaxExtensions::new(records) {
            let record = record.map_err(|source| UnpackError::Damaged { source })?;
            let value = record.value_bytes();
            let number = || std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
            match record.key_bytes() {
                b"path" => self.path = Some(value.to_vec()),
                b"linkpath" => self.link = Some(value.to_vec()),
                b"mtime" => self.mtime = parse_time(value),
                b"uid" => self.uid = number(),
                b"gid" => self.gid = number(),
                b"size" => self.size = number(),
                key if key.starts_with(ATTRIBUTE) => {
                    self.take_attribute(&key[ATTRIBUTE.len()..], value);
                }
                key if key.starts_with(b"SCHILY.acl.") => self.left_out.push("access list"),
                key if key.starts_with(b"GNU.sparse.") => self.is_sparse = true,
                _ => {}
            }
        }
        Ok(())
    }

    fn take_attribute(&mut self, name: &[u8], value: &[u8]) {
        let is_users = name.starts_with(b"user.") && name.len() <= LONGEST_ATTRIBUTE;
        match name {
            b"security.capability" => self.left_out.push("capability"),
            _ if name.starts_with(b"user.overlay.") => self.left_out.push("mark of an overlay"),
            _ if is_users && !name.contains(&0) => {
                self.attributes.push((OsString::from_vec(name.to_vec()), value.to_vec()));
            }
            _ => self.left_out.push("attribute that is no user's"),
        }
    }

    /// Describes the entry that all this was about.
    pub(super) fn describe<R: Read>(self, entry: &Entry<'_, R>) -> Result<Described, UnpackError> {
        let header = entry.header();
        let damaged = |source| UnpackError::Damaged { source };
        let path = self.path.unwrap_or_else(|| entry.path_bytes().into_owned());
        let path = PathBuf::from(OsString::from_vec(path));
        let kind = header.entry_type();
        if self.is_sparse || kind.is_gnu_sparse() {
            return Err(UnpackError::Sparse { path });
        }
        if self.size.is_some_and(|size| size != entry.size()) {
            return Err(UnpackError::TooLongFile { path });
        }
        let link = self.link.or_else(|| entry.link_name_bytes().map(std::borrow::Cow::into_owned));
        let seconds = i64::try_from(header.mtime().map_err(damaged)?).unwrap_or(i64::MAX);
        Ok(Described {
            kind,
            path,
            link: link.map(|link| OsString::from_vec(link).into()),
            size: entry.size(),
            mode: header.mode().map_err(damaged)? & 0o7777,
            uid: self.uid.map_or_else(|| header.uid(), Ok).map_err(damaged)?,
            gid: self.gid.map_or_else(|| header.gid(), Ok).map_err(damaged)?,
            mtime: self.mtime.unwrap_or(Time { sec: seconds, nsec: 0 }),
            attributes: self.attributes,
            left_out: self.left_out,
        })
    }
}

fn read<R: Read>(entry: &mut Entry<'_, R>, longest: u64) -> Result<Vec<u8>, UnpackError> {
    if entry.size() > longest {
        return Err(UnpackError::TooLongName { length: entry.size(), longest });
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).map_err(UnpackError::from_read)?;
    Ok(bytes)
}

/// GNU long names end in a NUL.
fn trimmed(mut name: Vec<u8>) -> Vec<u8> {
    if let Some(end) = name.iter().position(|byte| *byte == 0) {
        name.truncate(end);
    }
    name
}

/// Seconds with a decimal fraction, and perhaps a sign.
fn parse_time(value: &[u8]) -> Option<Time> {
    let text = std::str::from_utf8(value).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let sec: i64 = whole.parse().ok()?;
    let digits = fraction.get(..fraction.len().min(9))?;
    let nsec: u32 = if digits.is_empty() { 0 } else { format!("{digits:0<9}").parse().ok()? };
    // A fraction counts away from zero, nanoseconds always upwards.
    match (text.starts_with('-'), nsec) {
        (true, 1..) => Some(Time { sec: sec.checked_sub(1)?, nsec: 1_000_000_000 - nsec }),
        _ => Some(Time { sec, nsec }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_fractions_and_signs() {
        let time = |sec, nsec| Some(Time { sec, nsec });
        assert_eq!(parse_time(b"12"), time(12, 0));
        assert_eq!(parse_time(b"12.5"), time(12, 500_000_000));
        assert_eq!(parse_time(b"12.0000000019"), time(12, 1));
        assert_eq!(parse_time(b"-1.25"), time(-2, 750_000_000));
        for text in [&b""[..], b".", b"x", b"1.x", b"1.\xff"] {
            assert_eq!(parse_time(text), None, "{text:?}");
        }
    }
}
