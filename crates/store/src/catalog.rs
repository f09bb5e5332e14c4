//! The images that are there: what each is made of, and what it is called.
//!
//! | name below `catalog` | what |
//! |---|---|
//! | `images/sha256-HEX.json` | an image, by the digest of its configuration; its time is that of its last use |
//! | `names/HEX.json` | a name, and which image it is of, by the sha256 of the name |
//! | `lock` | locked while something of it changes |
//!
//! Each file appears whole or not at all, the image before its names.

use crate::digest::Digest;
use crate::disk;
use crate::oci::{Reference, Settings, Source};
use rustix::fs::{AtFlags, Timespec, Timestamps};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Fewest digits by which an image can be named.
const DIGITS_MIN: usize = 6;

/// The images of one user.
#[derive(Debug)]
pub struct Catalog {
    path: PathBuf,
}

/// What an image is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// sha256 of its configuration.
    pub id: Digest,
    /// Its layers, bottom first, by their diff ids.
    pub layers: Vec<Digest>,
    /// How it wants to be run.
    pub settings: Settings,
    /// For which machine it is.
    pub architecture: String,
    /// When it was made, as it says.
    pub created: Option<String>,
    /// When it came here, in seconds since 1970.
    pub added: u64,
    /// Bytes of its layers, those that it shares included.
    pub bytes: u64,
}

/// A name of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// The name, whole.
    pub name: String,
    /// Which image.
    pub image: Digest,
    /// sha256 of its manifest there, if it has one.
    pub manifest: Option<Digest>,
    /// What it was made from, if that is a file: its length and times then.
    #[serde(default)]
    pub stamp: Option<String>,
}

/// An image with its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// What it is made of.
    pub record: Record,
    /// What it is called.
    pub names: Vec<Named>,
    /// When it was last used, in seconds since 1970.
    pub used: u64,
}

/// Why the images cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    #[error("could not use the list of images in {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("there are several images whose digest begins with {text:?}")]
    Ambiguous { text: String },
}

impl Catalog {
    /// Opens `state/catalog`, making it if need be.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn open(state: &Path) -> Result<Self, CatalogError> {
        let catalog = Self { path: state.join("catalog") };
        for name in ["images", "names"] {
            let made =
                DirBuilder::new().recursive(true).mode(0o700).create(catalog.path.join(name));
            made.map_err(|source| catalog.error(source))?;
        }
        Ok(catalog)
    }

    /// Adds an image, and gives it a name that another one may have had.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn add(&self, record: &Record, named: &Named) -> Result<(), CatalogError> {
        let _lock = self.lock()?;
        self.write(&self.image_path(&record.id), record)?;
        self.write(&self.name_path(&named.name), named)
    }

    /// All images, by their ids.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub fn list(&self) -> Result<Vec<Image>, CatalogError> {
        let mut names: BTreeMap<Digest, Vec<Named>> = BTreeMap::new();
        for (_, named) in self.read_all::<Named>("names")? {
            names.entry(named.image).or_default().push(named);
        }
        let mut images = Vec::new();
        for (path, record) in self.read_all::<Record>("images")? {
            let mut names = names.remove(&record.id).unwrap_or_default();
            names.sort_by(|a, b| a.name.cmp(&b.name));
            let used = path.metadata().and_then(|found| found.modified());
            let used = used.map_or(record.added, seconds);
            images.push(Image { record, names, used });
        }
        images.sort_by_key(|image| image.record.id);
        Ok(images)
    }

    /// The image of that name, digest, or beginning of a digest.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or several are meant.
    pub fn find(&self, text: &str) -> Result<Option<Image>, CatalogError> {
        let name = whole_name(text);
        if let Some(named) = self.read::<Named>(&self.name_path(&name))?
            && let Some(image) = self.get(&named.image)?
        {
            return Ok(Some(image));
        }
        let hex = text.strip_prefix("sha256:").unwrap_or(text);
        if hex.len() < DIGITS_MIN || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let is_meant = |digest: &Digest| digest.hex().starts_with(hex);
        let mut found = self.list()?.into_iter().filter(|image| {
            let manifests = image.names.iter().filter_map(|named| named.manifest.as_ref());
            is_meant(&image.record.id) || manifests.into_iter().any(is_meant)
        });
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => Err(CatalogError::Ambiguous { text: text.to_owned() }),
            (found, _) => Ok(found),
        }
    }

    /// The image of that id.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn get(&self, id: &Digest) -> Result<Option<Image>, CatalogError> {
        Ok(self.list()?.into_iter().find(|image| image.record.id == *id))
    }

    /// Notes that an image is used now. That it cannot be noted is no mistake.
    pub fn touch(&self, id: &Digest) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = Timespec {
            tv_sec: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: now.subsec_nanos().into(),
        };
        let times = Timestamps { last_access: time, last_modification: time };
        let path = self.image_path(id);
        rustix::fs::utimensat(rustix::fs::CWD, path, &times, AtFlags::empty()).ok();
    }

    /// Takes a name away, and the image too if that was its last one; or the image with all its
    /// names, if `text` is none of them. An image that `is_used` is not removed, which is said;
    /// it is asked while nobody can begin to use one by [`Self::while_there`].
    ///
    /// # Errors
    ///
    /// When something cannot be removed, and what `is_used` fails with.
    pub fn remove<E: From<CatalogError>>(
        &self,
        image: &Image,
        text: &str,
        is_used: impl FnOnce() -> Result<bool, E>,
    ) -> Result<bool, E> {
        let _lock = self.lock()?;
        let name = whole_name(text);
        let is_name = image.names.iter().any(|named| named.name == name);
        let is_last = !is_name || image.names.len() == 1;
        if is_last && is_used()? {
            return Ok(false);
        }
        let names = image.names.iter().filter(|named| !is_name || named.name == name);
        for named in names {
            self.unlink(&self.name_path(&named.name))?;
        }
        if is_last {
            self.unlink(&self.image_path(&image.record.id))?;
        }
        Ok(true)
    }

    /// Does something while an image is there, and nobody can remove it; nothing if it is not.
    /// `work` is given the file that it is written down in.
    ///
    /// # Errors
    ///
    /// When it cannot be locked.
    pub fn while_there<T>(
        &self,
        id: &Digest,
        work: impl FnOnce(&Path) -> T,
    ) -> Result<Option<T>, CatalogError> {
        let _lock = self.lock()?;
        let path = self.image_path(id);
        Ok(path.exists().then(|| work(&path)))
    }

    /// The image that is written down in a file, and its layers.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn read_file(&self, path: &Path) -> Result<Option<Record>, CatalogError> {
        self.read(path)
    }

    /// Whether this file is one of those that images are written down in.
    #[must_use]
    pub fn has_file(&self, path: &Path) -> bool {
        path.parent().is_some_and(|above| above == self.path.join("images"))
    }

    /// All layers of all images.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub fn layers(&self) -> Result<BTreeSet<Digest>, CatalogError> {
        let records = self.read_all::<Record>("images")?;
        Ok(records.into_iter().flat_map(|(_, record)| record.layers).collect())
    }

    /// What was made from the file that a name is about, if that is as it was.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn find_unchanged(&self, name: &str, stamp: &str) -> Result<Option<Image>, CatalogError> {
        match self.read::<Named>(&self.name_path(name))? {
            Some(named) if named.stamp.as_deref() == Some(stamp) => self.get(&named.image),
            Some(_) | None => Ok(None),
        }
    }

    fn image_path(&self, id: &Digest) -> PathBuf {
        self.path.join("images").join(format!("{}.json", id.file_name()))
    }

    fn name_path(&self, name: &str) -> PathBuf {
        let hex = Digest::of(name.as_bytes()).hex();
        self.path.join("names").join(format!("{hex}.json"))
    }

    fn lock(&self) -> Result<File, CatalogError> {
        disk::lock_at(&self.path.join("lock")).map_err(|source| self.error(source))
    }

    fn write(&self, path: &Path, value: &impl Serialize) -> Result<(), CatalogError> {
        let write = || disk::replace(path, &serde_json::to_vec(value)?, &mut |_| Ok(()));
        write().map_err(|source| self.error(source))
    }

    fn read<T: DeserializeOwned>(&self, path: &Path) -> Result<Option<T>, CatalogError> {
        let bytes = match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|source| self.error(source))?,
        };
        let parsed = serde_json::from_slice(&bytes);
        parsed.map(Some).map_err(|error| self.error(error.into()))
    }

    fn read_all<T: DeserializeOwned>(&self, at: &str) -> Result<Vec<(PathBuf, T)>, CatalogError> {
        let entries = std::fs::read_dir(self.path.join(at)).map_err(|e| self.error(e))?;
        let mut all = Vec::new();
        for entry in entries {
            let path = entry.map_err(|source| self.error(source))?.path();
            // One that is gone meanwhile is just not there.
            if path.extension().is_some_and(|extension| extension == "json")
                && let Some(value) = self.read(&path)?
            {
                all.push((path, value));
            }
        }
        Ok(all)
    }

    fn unlink(&self, path: &Path) -> Result<(), CatalogError> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.error(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn error(&self, source: io::Error) -> CatalogError {
        CatalogError::Io { path: self.path.clone(), source }
    }
}

/// A name as it is kept: whole, however it was written.
#[must_use]
pub fn whole_name(text: &str) -> String {
    match Source::parse(text) {
        Ok(Source::Registry(reference)) => Reference::to_string(&reference),
        Ok(Source::Layout { .. } | Source::Archive { .. } | Source::Path(_)) | Err(_) => {
            text.to_owned()
        }
    }
}

/// Now, in seconds since 1970.
#[must_use]
pub fn now() -> u64 {
    seconds(SystemTime::now())
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(n: u8) -> Record {
        Record {
            id: Digest::of(&[n]),
            layers: vec![Digest::of(&[n, 0]), Digest::of(b"shared")],
            settings: Settings::default(),
            architecture: "amd64".to_owned(),
            created: None,
            added: 7,
            bytes: 9,
        }
    }

    fn named(name: &str, n: u8) -> Named {
        let (manifest, stamp) = (Some(Digest::of(&[n, 1])), None);
        Named { name: whole_name(name), image: Digest::of(&[n]), manifest, stamp }
    }

    fn remove(catalog: &Catalog, image: &Image, text: &str) {
        let is_used = |used| move || Ok::<_, CatalogError>(used);
        let is_last = image.names.len() == 1 || text.len() == 64;
        assert_eq!(catalog.remove(image, text, is_used(true)).unwrap(), !is_last);
        if is_last {
            assert!(catalog.remove(image, text, is_used(false)).unwrap());
        }
    }

    #[test]
    fn images_are_found_by_all_that_they_are_called() {
        let dir = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(dir.path()).unwrap();
        catalog.add(&record(1), &named("python:3", 1)).unwrap();
        catalog.add(&record(1), &named("docker.io/library/python:latest", 1)).unwrap();
        catalog.add(&record(2), &named("x.example/a:b", 2)).unwrap();
        let id = |text: &str| catalog.find(text).unwrap().map(|image| image.record.id);
        let hex = Digest::of(&[1]).hex();
        let manifest = Digest::of(&[1, 1]).to_string();
        let one = Some(Digest::of(&[1]));
        for text in
            ["python:3", "docker.io/library/python:3", "python", &hex, &hex[..12], &manifest]
        {
            assert_eq!(id(text), one, "{text}");
        }
        for text in ["python:4", &hex[..5], "", "/python", "zzzzzzz"] {
            assert_eq!(id(text), None, "{text}");
        }
        assert_eq!(catalog.list().unwrap().len(), 2);
        assert_eq!(catalog.layers().unwrap().len(), 3);
        // A name goes over to another image; the first keeps its other one.
        catalog.add(&record(2), &named("python:3", 2)).unwrap();
        assert_eq!(id("python:3"), Some(Digest::of(&[2])));
        assert_eq!(id("python"), one);
        let image = catalog.find("python").unwrap().unwrap();
        remove(&catalog, &image, "python");
        assert_eq!(id(&hex), None);
        // By its digest an image goes with all its names.
        let two = Digest::of(&[2]).hex();
        let image = catalog.find(&two).unwrap().unwrap();
        assert_eq!(image.names.len(), 2);
        remove(&catalog, &image, &two);
        assert_eq!(catalog.list().unwrap(), []);
        assert_eq!(id("x.example/a:b"), None);
    }

    #[test]
    fn what_was_used_last_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(dir.path()).unwrap();
        catalog.add(&record(1), &named("a", 1)).unwrap();
        let old = Timespec { tv_sec: 1000, tv_nsec: 0 };
        let times = Timestamps { last_access: old, last_modification: old };
        let path = catalog.image_path(&Digest::of(&[1]));
        rustix::fs::utimensat(rustix::fs::CWD, path, &times, AtFlags::empty()).unwrap();
        assert_eq!(catalog.find("a").unwrap().unwrap().used, 1000);
        catalog.touch(&Digest::of(&[1]));
        assert!(catalog.find("a").unwrap().unwrap().used > 1000);
    }
}
