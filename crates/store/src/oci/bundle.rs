//! Images in files: OCI's layout, as a directory or an archive, and what `docker save` writes.

use super::document::{DocumentError, Told, parse_config, parse_manifest, parse_saved};
use super::{Config, DOCUMENT_BYTES_MAX, Platform};
use crate::beneath;
use crate::digest::Digest;
use crate::image::{Limits, UnpackError, input};
use crate::layer::Expected;
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Component, Path, PathBuf};
use tar::EntryType;

/// Entries that are looked at to tell whether an archive may hold images.
const LOOKED_AT: usize = 32;

/// Most entries of an archive of images.
const ENTRIES_MAX: usize = 100_000;

/// Most links from one entry to the next.
const LINKS_MAX: usize = 8;

/// Files with images in them.
#[derive(Debug)]
pub struct Bundle {
    path: PathBuf,
    files: Files,
}

#[derive(Debug)]
enum Files {
    Folder(OwnedFd),
    Archive { file: File, entries: BTreeMap<PathBuf, Place> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    At { offset: u64, length: u64 },
    Link(PathBuf),
}

/// An image that was chosen from a bundle.
#[derive(Debug)]
pub struct Chosen {
    /// sha256 of its configuration.
    pub id: Digest,
    /// sha256 of its manifest, if it has one.
    pub manifest: Option<Digest>,
    /// What its configuration says.
    pub config: Config,
    /// Its layers, bottom first, and the files that they are in.
    pub layers: Vec<(Expected, PathBuf)>,
}

/// Why there is no image in a file.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("could not read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("could not read the archive {}", path.display())]
    Archive { path: PathBuf, source: UnpackError },
    #[error("{} holds no image: neither OCI's layout nor what `docker save` writes", path.display())]
    NoImage { path: PathBuf },
    #[error("{} has no {}, which it names", path.display(), name.display())]
    Missing { path: PathBuf, name: PathBuf },
    #[error("{} is too long in {}", name.display(), path.display())]
    TooLong { path: PathBuf, name: PathBuf },
    #[error("{} in {} is not what its name says: it is {found}", expected, path.display())]
    Digest { path: PathBuf, expected: Digest, found: Digest },
    #[error("the image in {} cannot be used", path.display())]
    Document { path: PathBuf, source: DocumentError },
}

impl Bundle {
    /// Opens what is at a path if it holds images; nothing if it is a directory of other files,
    /// or an archive of them. An archive that is compressed is decompressed first, into a file
    /// without a name in `scratch`.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is damaged.
    pub fn detect(
        path: &Path,
        scratch: &Path,
        limits: &Limits,
    ) -> Result<Option<Self>, BundleError> {
        let read = |source| BundleError::Read { path: path.to_owned(), source };
        let unpacked = |source| BundleError::Archive { path: path.to_owned(), source };
        let is_dir = path.metadata().map_err(read)?.is_dir();
        if is_dir {
            let folder = beneath::open_root(path).map_err(read)?;
            let has = |name: &str| beneath::file(folder.as_fd(), Path::new(name)).is_ok();
            let is_one = (has("oci-layout") && has("index.json")) || has("manifest.json");
            let is_one = is_one && (has("oci-layout") || !has("bin"));
            let files = Files::Folder(folder);
            return Ok(is_one.then(|| Self { path: path.to_owned(), files }));
        }
        let Some(file) = archive(path, scratch, limits).map_err(unpacked)? else {
            return Ok(None);
        };
        let entries = scan(&file).map_err(unpacked)?;
        let has = |name: &str| entries.contains_key(Path::new(name));
        let is_one = has("manifest.json") || (has("oci-layout") && has("index.json"));
        let files = Files::Archive { file, entries };
        Ok(is_one.then(|| Self { path: path.to_owned(), files }))
    }

    /// Chooses an image: the one of that name for that machine, or the only one.
    ///
    /// # Errors
    ///
    /// [`BundleError`].
    pub fn choose(&self, name: Option<&str>, platform: &Platform) -> Result<Chosen, BundleError> {
        if let Some(saved) = self.read("manifest.json")? {
            return self.choose_saved(&saved, name, platform);
        }
        let index = self.read("index.json")?;
        let index = index.ok_or_else(|| BundleError::NoImage { path: self.path.clone() })?;
        let Told::Index(index) = self.document(parse_manifest(&index))? else {
            return Err(BundleError::NoImage { path: self.path.clone() });
        };
        let mut manifest = self.document(index.named(name))?.digest;
        let mut told = self.document(parse_manifest(&self.blob(&manifest)?))?;
        if let Told::Index(index) = &told {
            manifest = self.document(index.for_platform(platform))?.digest;
            told = self.document(parse_manifest(&self.blob(&manifest)?))?;
        }
        let Told::Manifest(found) = told else {
            return Err(BundleError::NoImage { path: self.path.clone() });
        };
        let config = self.document(parse_config(&self.blob(&found.config.digest)?, platform))?;
        self.document(config.check_layers(found.layers.len()))?;
        let layer = |(diff_id, layer): (&Digest, &super::Descriptor)| {
            let packed = Some((layer.digest, layer.size));
            (Expected { diff_id: *diff_id, packed }, blob_path(&layer.digest))
        };
        let layers = config.diff_ids.iter().zip(&found.layers).map(layer).collect();
        Ok(Chosen { id: found.config.digest, manifest: Some(manifest), config, layers })
    }

    fn choose_saved(
        &self,
        saved: &[u8],
        name: Option<&str>,
        platform: &Platform,
    ) -> Result<Chosen, BundleError> {
        let saved = self.document(parse_saved(saved, name))?;
        let missing =
            || BundleError::Missing { path: self.path.clone(), name: saved.config.clone().into() };
        let bytes = self.read(&saved.config)?.ok_or_else(missing)?;
        let config = self.document(parse_config(&bytes, platform))?;
        self.document(config.check_layers(saved.layers.len()))?;
        let layer = |(diff_id, name): (&Digest, &String)| {
            (Expected { diff_id: *diff_id, packed: None }, PathBuf::from(name))
        };
        let layers = config.diff_ids.iter().zip(&saved.layers).map(layer).collect();
        Ok(Chosen { id: Digest::of(&bytes), manifest: None, config, layers })
    }

    /// Opens a file of it.
    ///
    /// # Errors
    ///
    /// When it is not there.
    pub fn open(&self, name: &Path) -> Result<Box<dyn Read + '_>, BundleError> {
        let missing = || BundleError::Missing { path: self.path.clone(), name: name.to_owned() };
        match &self.files {
            Files::Folder(folder) => {
                let path = plain(name).ok_or_else(missing)?;
                let file = beneath::file(folder.as_fd(), &path).map_err(|_| missing())?;
                Ok(Box::new(File::from(file)))
            }
            Files::Archive { file, entries } => {
                let mut at = plain(name).ok_or_else(missing)?;
                for _ in 0..LINKS_MAX {
                    match entries.get(&at).ok_or_else(missing)? {
                        Place::Link(to) => at.clone_from(to),
                        &Place::At { offset, length } => {
                            return Ok(Box::new(Part { file, offset, left: length }));
                        }
                    }
                }
                Err(missing())
            }
        }
    }

    /// A document of it; nothing if it is not there.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, BundleError> {
        let reader = match self.open(Path::new(name)) {
            Ok(reader) => reader,
            Err(BundleError::Missing { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        reader
            .take(DOCUMENT_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(|source| BundleError::Read { path: self.path.clone(), source })?;
        if bytes.len() as u64 > DOCUMENT_BYTES_MAX {
            return Err(BundleError::TooLong { path: self.path.clone(), name: name.into() });
        }
        Ok(Some(bytes))
    }

    /// A document that is named by its digest.
    fn blob(&self, digest: &Digest) -> Result<Vec<u8>, BundleError> {
        let name = blob_path(digest);
        let bytes = self.read(&name.to_string_lossy())?;
        let bytes = bytes
            .ok_or_else(|| BundleError::Missing { path: self.path.clone(), name: name.clone() })?;
        let found = Digest::of(&bytes);
        if found != *digest {
            return Err(BundleError::Digest { path: self.path.clone(), expected: *digest, found });
        }
        Ok(bytes)
    }

    fn document<T>(&self, read: Result<T, DocumentError>) -> Result<T, BundleError> {
        read.map_err(|source| BundleError::Document { path: self.path.clone(), source })
    }
}

fn blob_path(digest: &Digest) -> PathBuf {
    Path::new("blobs/sha256").join(digest.hex())
}

/// A path in a bundle without what is no name; nothing if it leads out.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            // Docker's links between layers.
            Component::ParentDir => {
                plain.pop().then_some(())?;
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(plain)
}

/// The archive, decompressed, if its first entries look as if it held images.
fn archive(path: &Path, scratch: &Path, limits: &Limits) -> Result<Option<File>, UnpackError> {
    let read = |source| UnpackError::Read { source };
    // A fifo would wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let open = || rustix::fs::open(path, flags, Mode::empty()).map(File::from);
    let file = open().map_err(|errno| read(errno.into()))?;
    if !file.metadata().map_err(read)?.is_file() {
        return Ok(None);
    }
    if input::is_plain(&file).map_err(read)? {
        return Ok(may_hold_images(names_of_plain(&file)).then_some(file));
    }
    let input = match input::Input::open(&file, *limits) {
        // Whoever reads it as files says so.
        Err(UnpackError::Compression { .. } | UnpackError::Damaged { .. }) => return Ok(None),
        opened => opened?,
    };
    if !may_hold_images(names_of_packed(input)) {
        return Ok(None);
    }
    let again = open().map_err(|errno| read(errno.into()))?;
    let mut input = input::Input::open(again, *limits)?;
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let unpacked = rustix::fs::open(scratch, flags, Mode::RUSR | Mode::WUSR);
    let mut unpacked = File::from(unpacked.map_err(|errno| read(errno.into()))?);
    io::copy(&mut input, &mut unpacked).map_err(UnpackError::from_read)?;
    Ok(Some(unpacked))
}

fn names_of_plain(file: &File) -> Vec<PathBuf> {
    let mut archive = tar::Archive::new(file);
    let Ok(entries) = archive.entries_with_seek() else { return Vec::new() };
    let entries = entries.take(LOOKED_AT).map_while(Result::ok);
    entries.filter_map(|entry| entry.path().ok().map(std::borrow::Cow::into_owned)).collect()
}

fn names_of_packed(input: input::Input<'_>) -> Vec<PathBuf> {
    let mut archive = tar::Archive::new(input);
    let Ok(entries) = archive.entries() else { return Vec::new() };
    // What follows a long entry would take long to come to.
    let entries = entries.take(4).map_while(Result::ok);
    entries.filter_map(|entry| entry.path().ok().map(std::borrow::Cow::into_owned)).collect()
}

/// Whether names are like those of images, and not of files of one.
fn may_hold_images(names: Vec<PathBuf>) -> bool {
    let is_hex = |name: &str| name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    names.iter().filter_map(|path| plain(path)).any(|path| {
        let mut parts = path.iter().filter_map(|part| part.to_str());
        match (parts.next(), parts.next()) {
            (Some("oci-layout" | "index.json" | "manifest.json" | "repositories"), None) => true,
            (Some("blobs"), None | Some("sha256")) => true,
            (Some(first), _) => is_hex(first.split('.').next().unwrap_or_default()),
            (None, _) => false,
        }
    })
}

/// Where each file of an archive is.
fn scan(file: &File) -> Result<BTreeMap<PathBuf, Place>, UnpackError> {
    let mut start = file;
    start.seek(SeekFrom::Start(0)).map_err(|source| UnpackError::Read { source })?;
    let length = file.metadata().map_err(|source| UnpackError::Read { source })?.len();
    let mut archive = tar::Archive::new(file);
    let mut places = BTreeMap::new();
    for entry in archive.entries_with_seek().map_err(UnpackError::from_read)? {
        let entry = entry.map_err(UnpackError::from_read)?;
        if places.len() >= ENTRIES_MAX {
            return Err(UnpackError::TooMany { limit: ENTRIES_MAX as u64 });
        }
        let name = entry.path().map_err(UnpackError::from_read)?;
        let Some(name) = plain(&name) else { continue };
        let above = name.parent().unwrap_or(Path::new("")).to_owned();
        let target = || entry.link_name().ok().flatten();
        let place = match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous => {
                let (offset, size) = (entry.raw_file_position(), entry.size());
                if offset.checked_add(size).is_none_or(|end| end > length) {
                    return Err(UnpackError::Damaged {
                        source: io::ErrorKind::UnexpectedEof.into(),
                    });
                }
                Some(Place::At { offset, length: size })
            }
            EntryType::Symlink => target().and_then(|to| plain(&above.join(to))).map(Place::Link),
            EntryType::Link => target().and_then(|to| plain(&to)).map(Place::Link),
            _ => None,
        };
        if let Some(place) = place {
            places.insert(name, place);
        }
    }
    Ok(places)
}

/// A part of a file.
struct Part<'f> {
    file: &'f File,
    offset: u64,
    left: u64,
}

impl Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.file.read_at(&mut buffer[..most], self.offset)?;
        self.offset += count as u64;
        self.left -= count as u64;
        Ok(count)
    }
}
