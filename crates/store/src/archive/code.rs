//! The bytes of a packed layer: records, one behind the other.
//!
//! A directory's record is followed by those of what is in it, in the order of their names, and by
//! one that leaves it; so a record has one name and no path, and none can lead anywhere. Numbers
//! are big-endian. Names by which a file is there once more refer to the first one by a number
//! that it was given.

use crate::node::Time;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStringExt as _;

/// What a layer begins with; the last byte is the version.
pub(super) const MAGIC: &[u8; 8] = b"atolltr\x01";

/// Longest name, as Linux has it.
pub(super) const NAME_BYTES_MAX: usize = 255;
/// Longest target of a link, and of a redirect.
pub(super) const TARGET_BYTES_MAX: usize = 4096;
/// Longest value of an attribute, and most bytes of all of one file.
pub(super) const ATTRIBUTES_BYTES_MAX: usize = 128 << 10;
/// Most attributes of one file.
pub(super) const ATTRIBUTES_MAX: usize = 1024;
/// Content is written in pieces of this length; one without a byte that is not 0 is a hole.
pub(super) const PIECE_BYTES: usize = 64 << 10;

/// What all but marks have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mtime: Time,
    pub(super) attributes: Vec<(OsString, Vec<u8>)>,
}

/// How a directory goes on below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Goes {
    /// In the directory of its name.
    On,
    /// Nowhere: what is below is hidden.
    Opaque,
    /// Elsewhere.
    Redirect(OsString),
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// `is_copy`: it is one of those below, written to.
    Directory {
        name: OsString,
        meta: Meta,
        goes: Goes,
        is_copy: bool,
    },
    /// Its content follows. It has other names, if it has a number.
    File {
        name: OsString,
        meta: Meta,
        number: u32,
        bytes: u64,
    },
    Link {
        name: OsString,
        meta: Meta,
        target: OsString,
    },
    Fifo {
        name: OsString,
        meta: Meta,
    },
    Socket {
        name: OsString,
        meta: Meta,
    },
    /// The file of this number is called so, too.
    Again {
        name: OsString,
        number: u32,
    },
    /// What is below has no such name any more.
    Gone {
        name: OsString,
    },
    /// The directory is over.
    Leave,
    /// Everything is.
    End,
}

/// A piece of content.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Bytes(Vec<u8>),
    Hole(u64),
    End,
}

const DIRECTORY: u8 = 1;
const FILE: u8 = 2;
const LINK: u8 = 3;
const FIFO: u8 = 4;
const SOCKET: u8 = 5;
const AGAIN: u8 = 6;
const GONE: u8 = 7;
const LEAVE: u8 = 8;
const END: u8 = 9;

pub(super) struct Encoder<W>(pub(super) W);

impl<W: Write> Encoder<W> {
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.0.write_all(MAGIC)
    }

    pub(super) fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        match entry {
            Entry::Directory { name, meta, goes, is_copy } => {
                self.named(DIRECTORY, name)?;
                self.meta(meta)?;
                let (kind, to) = match goes {
                    Goes::On => (0, None),
                    Goes::Opaque => (1, None),
                    Goes::Redirect(to) => (2, Some(to)),
                };
                self.0.write_all(&[kind | u8::from(*is_copy) << 4])?;
                to.map_or(Ok(()), |to| self.text(to))
            }
            Entry::File { name, meta, number, bytes } => {
                self.named(FILE, name)?;
                self.meta(meta)?;
                self.0.write_all(&number.to_be_bytes())?;
                self.0.write_all(&bytes.to_be_bytes())
            }
            Entry::Link { name, meta, target } => {
                self.named(LINK, name)?;
                self.meta(meta)?;
                self.text(target)
            }
            Entry::Fifo { name, meta } => {
                self.named(FIFO, name)?;
                self.meta(meta)
            }
            Entry::Socket { name, meta } => {
                self.named(SOCKET, name)?;
                self.meta(meta)
            }
            Entry::Again { name, number } => {
                self.named(AGAIN, name)?;
                self.0.write_all(&number.to_be_bytes())
            }
            Entry::Gone { name } => self.named(GONE, name),
            Entry::Leave => self.0.write_all(&[LEAVE]),
            Entry::End => self.0.write_all(&[END]),
        }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(&[1])?;
        self.0.write_all(&length32(bytes)?.to_be_bytes())?;
        self.0.write_all(bytes)
    }

    pub(super) fn hole(&mut self, length: u64) -> io::Result<()> {
        self.0.write_all(&[2])?;
        self.0.write_all(&length.to_be_bytes())
    }

    pub(super) fn end_of_content(&mut self) -> io::Result<()> {
        self.0.write_all(&[0])
    }

    fn named(&mut self, kind: u8, name: &OsString) -> io::Result<()> {
        self.0.write_all(&[kind])?;
        self.text(name)
    }

    fn text(&mut self, text: &OsString) -> io::Result<()> {
        let bytes = text.as_encoded_bytes();
        let length = u16::try_from(bytes.len()).map_err(|_| too_long())?;
        self.0.write_all(&length.to_be_bytes())?;
        self.0.write_all(bytes)
    }

    fn meta(&mut self, meta: &Meta) -> io::Result<()> {
        for number in [meta.mode, meta.uid, meta.gid] {
            self.0.write_all(&number.to_be_bytes())?;
        }
        self.0.write_all(&meta.mtime.sec.to_be_bytes())?;
        self.0.write_all(&meta.mtime.nsec.to_be_bytes())?;
        let count = u16::try_from(meta.attributes.len()).map_err(|_| too_long())?;
        self.0.write_all(&count.to_be_bytes())?;
        for (name, value) in &meta.attributes {
            self.text(name)?;
            self.0.write_all(&length32(value)?.to_be_bytes())?;
            self.0.write_all(value)?;
        }
        Ok(())
    }
}

fn length32(bytes: &[u8]) -> io::Result<u32> {
    u32::try_from(bytes.len()).map_err(|_| too_long())
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is too long for an archive")
}

pub(super) struct Decoder<R>(pub(super) R);

impl<R: Read> Decoder<R> {
    pub(super) fn begin(&mut self) -> io::Result<()> {
        let mut magic = [0; 8];
        self.0.read_exact(&mut magic)?;
        if &magic == MAGIC { Ok(()) } else { Err(wrong("it does not begin as a layer does")) }
    }

    pub(super) fn entry(&mut self) -> io::Result<Entry> {
        Ok(match self.byte()? {
            DIRECTORY => {
                let (name, meta, flags) = (self.name()?, self.meta()?, self.byte()?);
                let goes = match flags & 0x0f {
                    0 => Goes::On,
                    1 => Goes::Opaque,
                    2 => Goes::Redirect(self.text(TARGET_BYTES_MAX)?),
                    _ => return Err(wrong("a directory goes on in no way that there is")),
                };
                let is_copy = match flags >> 4 {
                    0 => false,
                    1 => true,
                    _ => return Err(wrong("a directory is what none is")),
                };
                Entry::Directory { name, meta, goes, is_copy }
            }
            FILE => Entry::File {
                name: self.name()?,
                meta: self.meta()?,
                number: self.number()?,
                bytes: self.long()?,
            },
            LINK => Entry::Link {
                name: self.name()?,
                meta: self.meta()?,
                target: self.text(TARGET_BYTES_MAX)?,
            },
            FIFO => Entry::Fifo { name: self.name()?, meta: self.meta()? },
            SOCKET => Entry::Socket { name: self.name()?, meta: self.meta()? },
            AGAIN => Entry::Again { name: self.name()?, number: self.number()? },
            GONE => Entry::Gone { name: self.name()? },
            LEAVE => Entry::Leave,
            END => Entry::End,
            _ => return Err(wrong("there is something that no layer has")),
        })
    }

    /// The next piece of a file of which so many bytes are missing.
    pub(super) fn piece(&mut self, missing: u64) -> io::Result<Piece> {
        let piece = match self.byte()? {
            0 => Piece::End,
            1 => {
                let length = self.number()? as usize;
                if length == 0 || length > PIECE_BYTES || length as u64 > missing {
                    return Err(wrong("a file has more bytes than it says"));
                }
                let mut bytes = vec![0; length];
                self.0.read_exact(&mut bytes)?;
                Piece::Bytes(bytes)
            }
            2 => match self.long()? {
                0 => return Err(wrong("a hole has no length")),
                length if length > missing => {
                    return Err(wrong("a file has more bytes than it says"));
                }
                length => Piece::Hole(length),
            },
            _ => return Err(wrong("a file has something that is no content")),
        };
        if piece == Piece::End && missing > 0 {
            return Err(wrong("a file has fewer bytes than it says"));
        }
        Ok(piece)
    }

    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.0.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    fn short(&mut self) -> io::Result<usize> {
        let mut bytes = [0; 2];
        self.0.read_exact(&mut bytes)?;
        Ok(u16::from_be_bytes(bytes).into())
    }

    fn number(&mut self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.0.read_exact(&mut bytes)?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn long(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact(&mut bytes)?;
        Ok(u64::from_be_bytes(bytes))
    }

    /// One name: never a way to another place.
    fn name(&mut self) -> io::Result<OsString> {
        let name = self.text(NAME_BYTES_MAX)?;
        let bytes = name.as_encoded_bytes();
        let is_name =
            !bytes.is_empty() && bytes != b"." && bytes != b".." && !bytes.contains(&b'/');
        if is_name { Ok(name) } else { Err(wrong("something has a name that leads elsewhere")) }
    }

    fn text(&mut self, most: usize) -> io::Result<OsString> {
        let length = self.short()?;
        if length > most {
            return Err(wrong("a name is too long"));
        }
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes)?;
        if bytes.contains(&0) {
            return Err(wrong("a name has a byte in it that no name has"));
        }
        Ok(OsString::from_vec(bytes))
    }

    fn meta(&mut self) -> io::Result<Meta> {
        let (mode, uid, gid) = (self.number()?, self.number()?, self.number()?);
        let (sec, nsec) = (self.long()?.cast_signed(), self.number()?);
        if mode > 0o7777 || nsec >= 1_000_000_000 {
            return Err(wrong("a file has a mode or a time that none has"));
        }
        let count = self.short()?;
        if count > ATTRIBUTES_MAX {
            return Err(wrong("a file has too many attributes"));
        }
        let (mut attributes, mut all) = (Vec::new(), 0);
        for _ in 0..count {
            let name = self.text(NAME_BYTES_MAX)?;
            let length = self.number()? as usize;
            all += length;
            if all > ATTRIBUTES_BYTES_MAX {
                return Err(wrong("a file has attributes that are too long"));
            }
            let mut value = vec![0; length];
            self.0.read_exact(&mut value)?;
            attributes.push((name, value));
        }
        Ok(Meta { mode, uid, gid, mtime: Time { sec, nsec }, attributes })
    }
}

/// Something that no layer has; the one kind of error that reading brings of itself.
pub(super) fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names() -> impl Strategy<Value = OsString> {
        prop::collection::vec(any::<u8>(), 1..NAME_BYTES_MAX).prop_filter_map("a name", |bytes| {
            let is_name =
                bytes != b"." && bytes != b".." && !bytes.iter().any(|b| matches!(b, 0 | b'/'));
            is_name.then(|| OsString::from_vec(bytes))
        })
    }

    fn metas() -> impl Strategy<Value = Meta> {
        let attributes = prop::collection::vec((names(), any::<Vec<u8>>()), 0..3);
        let time = (any::<i64>(), 0..1_000_000_000_u32);
        (0..=0o7777_u32, any::<u32>(), any::<u32>(), time, attributes).prop_map(
            |(mode, uid, gid, (sec, nsec), attributes)| Meta {
                mode,
                uid,
                gid,
                mtime: Time { sec, nsec },
                attributes,
            },
        )
    }

    fn entries() -> impl Strategy<Value = Entry> {
        let goes =
            prop_oneof![Just(Goes::On), Just(Goes::Opaque), names().prop_map(Goes::Redirect)];
        prop_oneof![
            (names(), metas(), goes, any::<bool>()).prop_map(|(name, meta, goes, is_copy)| {
                Entry::Directory { name, meta, goes, is_copy }
            }),
            (names(), metas(), any::<u32>(), any::<u64>())
                .prop_map(|(name, meta, number, bytes)| Entry::File { name, meta, number, bytes }),
            (names(), metas(), names()).prop_map(|(name, meta, target)| Entry::Link {
                name,
                meta,
                target
            }),
            (names(), metas()).prop_map(|(name, meta)| Entry::Fifo { name, meta }),
            (names(), metas()).prop_map(|(name, meta)| Entry::Socket { name, meta }),
            (names(), any::<u32>()).prop_map(|(name, number)| Entry::Again { name, number }),
            names().prop_map(|name| Entry::Gone { name }),
            Just(Entry::Leave),
            Just(Entry::End),
        ]
    }

    proptest! {
        #[test]
        fn records_are_read_as_they_were_written(entry in entries()) {
            let mut encoder = Encoder(Vec::new());
            encoder.entry(&entry).unwrap();
            let mut decoder = Decoder(encoder.0.as_slice());
            prop_assert_eq!(decoder.entry().unwrap(), entry);
            prop_assert!(decoder.0.is_empty());
        }

        #[test]
        fn any_bytes_are_a_record_or_an_error(bytes: Vec<u8>) {
            let _outcome = Decoder(bytes.as_slice()).entry();
        }
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in ["", ".", "..", "a/b", "/", "a\0b"] {
            let mut encoder = Encoder(Vec::new());
            encoder.entry(&Entry::Gone { name: name.into() }).unwrap();
            assert!(Decoder(encoder.0.as_slice()).entry().is_err(), "{name:?}");
        }
        let mut encoder = Encoder(Vec::new());
        encoder.entry(&Entry::Gone { name: "a".repeat(256).into() }).unwrap();
        assert!(Decoder(encoder.0.as_slice()).entry().is_err());
    }

    #[test]
    fn a_file_has_as_many_bytes_as_it_says() {
        let mut encoder = Encoder(Vec::new());
        encoder.bytes(b"four").unwrap();
        encoder.hole(3).unwrap();
        encoder.end_of_content().unwrap();
        let read = |missing: [u64; 3]| {
            let mut decoder = Decoder(encoder.0.as_slice());
            missing.iter().try_for_each(|missing| decoder.piece(*missing).map(drop))
        };
        read([7, 3, 0]).unwrap();
        assert!(read([3, 3, 0]).is_err());
        assert!(read([7, 2, 0]).is_err());
        assert!(read([8, 4, 1]).is_err());
    }
}
