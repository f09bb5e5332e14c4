//! What some changes come to, in one hash: if it is the same later, so is what would be applied.

use super::{Change, Source};
use crate::digest::Digest;
use crate::node::{FileKind, Stamp, Time};
use crate::view::View;
use sha2::{Digest as _, Sha256};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The digest of `changes`, and of what else they depend on.
///
/// It covers the content of files, and of everything its inode and change time, which any other
/// change of it moves: modes, owners, attributes, links.
///
/// # Errors
///
/// When something cannot be read.
pub fn digest<'a>(
    view: &View,
    changes: impl IntoIterator<Item = &'a Change>,
    others: &[&[u8]],
) -> io::Result<Digest> {
    let mut whole = Whole(Sha256::new());
    for other in others {
        whole.add(other);
    }
    for change in changes {
        whole.path(&change.path);
        whole.add(format!("{:?} {:?}", change.kind, change.conflict).as_bytes());
        whole.number(change.withheld.into());
        whole.path(change.renamed_from.as_deref().unwrap_or(Path::new("")));
        whole.stamp(change.host.as_ref().map(|host| match host.kind {
            // Its times move with every entry.
            FileKind::Dir => Stamp { size: 0, ctime: Time { sec: 0, nsec: 0 }, ..*host },
            _ => *host,
        }));
        whole.stamp(change.wanted.as_ref().map(|wanted| wanted.stamp));
        if let Some(Source::Project(from)) = change.wanted.as_ref().map(|wanted| &wanted.source) {
            whole.path(from);
        }
        let target = change.after.as_ref().and_then(|after| after.target.as_deref());
        whole.path(target.unwrap_or(Path::new("")));
        if let Some(file) = change.open_after(view)? {
            whole.add(Digest::of_all(file)?.as_bytes());
        }
    }
    Ok(Digest::of_hash(whole.0.finalize().into()))
}

/// Pieces, each behind its length, so that none runs into the next.
struct Whole(Sha256);

impl Whole {
    fn number(&mut self, number: u64) {
        self.0.update(number.to_be_bytes());
    }

    fn add(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.update(bytes);
    }

    fn path(&mut self, path: &Path) {
        self.add(path.as_os_str().as_bytes());
    }

    fn stamp(&mut self, stamp: Option<Stamp>) {
        let Some(stamp) = stamp else { return self.add(b"") };
        let Stamp { dev, ino, kind, mode, uid, gid, size, ctime, .. } = stamp;
        self.add(format!("{dev} {ino} {kind:?} {mode} {uid} {gid} {size} {ctime:?}").as_bytes());
    }
}
