//! Tar archives by hand.

use tar::{Builder, EntryType, Header};

/// An archive under construction; nothing is checked, so that it can be hostile.
pub(crate) struct Archive(pub(crate) Builder<Vec<u8>>);

impl Archive {
    pub(crate) fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    /// Adds an entry with these bytes as its name and link, cut to 100.
    pub(crate) fn raw(
        mut self,
        kind: EntryType,
        name: &[u8],
        link: &[u8],
        mode: u32,
        content: &[u8],
    ) -> Self {
        let mut header = Header::new_ustar();
        let fields = header.as_ustar_mut().unwrap();
        fields.name[..name.len()].copy_from_slice(name);
        fields.linkname[..link.len()].copy_from_slice(link);
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(u64::from(rustix::process::geteuid().as_raw()));
        header.set_gid(u64::from(rustix::process::getegid().as_raw()));
        header.set_mtime(1_000_000_000);
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    pub(crate) fn file(self, name: &str, content: &str) -> Self {
        self.raw(EntryType::Regular, name.as_bytes(), b"", 0o644, content.as_bytes())
    }

    pub(crate) fn dir(self, name: &str, mode: u32) -> Self {
        self.raw(EntryType::Directory, name.as_bytes(), b"", mode, b"")
    }

    pub(crate) fn symlink(self, name: &str, target: &str) -> Self {
        self.raw(EntryType::Symlink, name.as_bytes(), target.as_bytes(), 0o777, b"")
    }

    pub(crate) fn link(self, name: &str, target: &str) -> Self {
        self.raw(EntryType::Link, name.as_bytes(), target.as_bytes(), 0o644, b"")
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}
