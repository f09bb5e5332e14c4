//! One entry of a tar archive, with its long names put together.
//!
//! The tar crate would join long names itself, but reads them into memory at
//! whatever length the header says; here they have a limit.
//!
//! Source: tar(5), pax(1) extended headers.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use tar::{Entry, EntryType};

/// A name, or a block of pax records, may be this long.
const NAME_BYTES_MAX: u64 = 64 << 10;
const RECORDS_BYTES_MAX: u64 = 1 << 20;

/// What is said about the next entry by special entries before it.
#[derive(Debug, Default)]
pub(super) struct Pending {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    is_sparse: bool,
}

/// An entry's description.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) kind: EntryType,
    pub(super) path: PathBuf,
    pub(super) link: PathBuf,
    /// Length of the content.
    pub(super) bytes: u64,
    pub(super) mode: u32,
    /// In seconds since 1970.
    pub(super) modified: i64,
}

impl Pending {
    /// Takes in an entry that only describes the next one; gives whether it was
    /// one.
    pub(super) fn absorb<R: Read>(&mut self, entry: &mut Entry<'_, R>) -> io::Result<bool> {
        match entry.header().entry_type() {
            EntryType::GNULongName => self.path = Some(text(entry)?),
            EntryType::GNULongLink => self.link = Some(text(entry)?),
            EntryType::XHeader => {
                let records = read(entry, RECORDS_BYTES_MAX)?;
                for record in tar::PaxExtensions::new(&records) {
                    let record = record?;
                    let value = record.value_bytes();
                    match record.key_bytes() {
                        b"path" => self.path = Some(value.to_vec()),
                        b"linkpath" => self.link = Some(value.to_vec()),
                        b"size" => {
                            let text = std::str::from_utf8(value).ok();
                            self.size = text.and_then(|text| text.parse().ok());
                        }
                        key if key.starts_with(b"GNU.sparse.") => self.is_sparse = true,
                        _ => {}
                    }
                }
            }
            // Says the same about all entries: comments, mostly.
            EntryType::XGlobalHeader => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The description of the entry that all this was about.
    pub(super) fn describe<R: Read>(self, entry: &Entry<'_, R>) -> io::Result<Described> {
        let header = entry.header();
        if self.is_sparse || self.size.is_some_and(|size| size != entry.size()) {
            let text = "a sparse file, or one whose length only a pax record has";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let path = self.path.unwrap_or_else(|| entry.path_bytes().into_owned());
        let link = self.link.or_else(|| entry.link_name_bytes().map(Into::into));
        let as_path = |bytes| PathBuf::from(OsString::from_vec(bytes));
        Ok(Described {
            kind: header.entry_type(),
            path: as_path(path),
            link: as_path(link.unwrap_or_default()),
            bytes: entry.size(),
            mode: header.mode()?,
            modified: i64::try_from(header.mtime()?).unwrap_or_default(),
        })
    }
}

/// A name, without the NUL that ends it.
fn text<R: Read>(entry: &mut Entry<'_, R>) -> io::Result<Vec<u8>> {
    let mut bytes = read(entry, NAME_BYTES_MAX)?;
    bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
    Ok(bytes)
}

fn read<R: Read>(entry: &mut Entry<'_, R>, bytes_max: u64) -> io::Result<Vec<u8>> {
    if entry.size() > bytes_max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a name that is too long"));
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes)?;
    Ok(bytes)
}
