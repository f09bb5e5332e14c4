//! Secrets, encrypted on the disk.
//!
//! | file | holds |
//! |---|---|
//! | `secrets` | names, times, and values that are encrypted; `file.rs` says how |
//! | `secrets.key` | the key, for its owner's eyes alone |
//! | `secrets.lock` | locked by who changes them |
//!
//! The file is replaced as a whole, so that whoever is cut short leaves the old one or the new
//! one, and readers need no lock. A file or a key that is not what was written is an error, and
//! nothing is written over it. Who can read both files has the values: the key is beside them so
//! that copies of the one, such as a backup, are worth nothing without the other.

mod file;
mod key;
mod private;

use crate::disk::{Step, lock_at, replace};
use file::{Read, Sealed};
use key::Key;
pub(crate) use key::read_bytes as read_key;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use zeroize::Zeroizing;

/// Longest name.
pub const NAME_BYTES_MAX: usize = 64;
/// Largest value.
pub const VALUE_BYTES_MAX: usize = 64 * 1024;
/// Most secrets in one file.
pub const SECRETS_COUNT_MAX: usize = 1000;
/// Most bytes of all values together.
pub const ALL_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Why a text names no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} cannot name a secret: write 1 to {NAME_BYTES_MAX} letters, digits, dots, dashes and \
     underscores, and not dots alone"
)]
pub struct NameError {
    /// What was written, cut to a length that can be shown.
    pub text: String,
}

/// The name of a secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretName(String);

impl SecretName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SecretName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let is_allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        let is_name = (1..=NAME_BYTES_MAX).contains(&text.len())
            && text.bytes().all(is_allowed)
            // They would be another place in a path.
            && text.bytes().any(|b| b != b'.');
        if is_name {
            return Ok(Self(text.to_owned()));
        }
        Err(NameError { text: text.chars().take(80).collect() })
    }
}

/// The value of a secret: wiped when it is dropped, and shown by nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Value(Zeroizing<Vec<u8>>);

impl Value {
    /// Takes bytes, of which there must be some, and not too many.
    ///
    /// # Errors
    /// [`SecretError::Empty`] or [`SecretError::TooLarge`]; the bytes are wiped.
    pub fn new(bytes: Vec<u8>) -> Result<Self, SecretError> {
        let value = Self(Zeroizing::new(bytes));
        match value.0.len() {
            0 => Err(SecretError::Empty),
            1..=VALUE_BYTES_MAX => Ok(value),
            _ => Err(SecretError::TooLarge),
        }
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Value(..)")
    }
}

/// A secret, as it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// Its name.
    pub name: SecretName,
    /// When it was first set, in microseconds since 1970.
    pub created_us: i64,
    /// When it was last set.
    pub updated_us: i64,
    /// Its value.
    pub value: Value,
}

/// What setting a secret did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Was {
    /// There was none of that name.
    New,
    /// It had another value, or the same.
    Replaced,
}

/// Why secrets could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// A file cannot be read or written.
    #[error("could not {step} {}", path.display())]
    File {
        /// What was being done, as in "read".
        step: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others could read a file, or have put it there.
    #[error("{} {why}", path.display())]
    NotPrivate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There are secrets and no key to them.
    #[error("the key {} is not there, and without it the secrets cannot be read", path.display())]
    KeyMissing {
        /// Where it would be.
        path: PathBuf,
    },
    /// The key is not what was written.
    #[error("the key {} is damaged", path.display())]
    KeyDamaged {
        /// Where it is.
        path: PathBuf,
    },
    /// The secrets were encrypted under another key.
    #[error("{} was encrypted under another key than that in {}", path.display(), key.display())]
    WrongKey {
        /// The secrets.
        path: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// What is in the file is not what was written.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The secrets.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// A newer version wrote the file.
    #[error("{} has format {found}; use a newer version", path.display())]
    TooNew {
        /// The secrets.
        path: PathBuf,
        /// Their format.
        found: u32,
    },
    /// A value has no bytes.
    #[error("a secret cannot be empty")]
    Empty,
    /// A value has too many bytes.
    #[error("a secret has at most {VALUE_BYTES_MAX} bytes")]
    TooLarge,
    /// There are as many secrets as there may be.
    #[error("there are {SECRETS_COUNT_MAX} secrets, which is the most")]
    TooMany,
    /// All values together are too large.
    #[error("all secrets together have at most {ALL_BYTES_MAX} bytes")]
    Full,
    /// There is no such secret.
    #[error("there is no secret {name}")]
    NotFound {
        /// What was asked for.
        name: SecretName,
    },
    /// The library for encryption failed.
    #[error("could not {step}")]
    Cipher {
        /// What was being done, as in "encrypt a secret".
        step: &'static str,
    },
}

/// The secrets of a directory, which is its owner's.
#[derive(Debug)]
pub struct Secrets {
    directory: PathBuf,
    /// What was read last, and how to tell whether it is still that.
    known: Mutex<Option<Known>>,
}

#[derive(Debug)]
struct Known {
    seal: Vec<u8>,
    secrets: Arc<Vec<Secret>>,
}

impl Secrets {
    /// Those in `directory`. Nothing is read or made yet.
    #[must_use]
    pub fn of(directory: PathBuf) -> Self {
        Self { directory, known: Mutex::default() }
    }

    /// All of them by name, as they are now: also what another process has changed.
    ///
    /// # Errors
    /// See [`SecretError`].
    pub fn all(&self) -> Result<Arc<Vec<Secret>>, SecretError> {
        let Some(file) = self.open()? else { return Ok(Arc::default()) };
        let seal = file::peek(&file).map_err(|source| self.failed("read", source))?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known
            && known.seal == seal
        {
            return Ok(known.secrets.clone());
        }
        let (secrets, _) = self.read(file)?;
        let secrets = Arc::new(secrets);
        *known = Some(Known { seal, secrets: secrets.clone() });
        Ok(secrets)
    }

    /// The value of one.
    ///
    /// # Errors
    /// See [`SecretError`].
    pub fn get(&self, name: &SecretName) -> Result<Option<Value>, SecretError> {
        let all = self.all()?;
        Ok(all.iter().find(|secret| secret.name == *name).map(|secret| secret.value.clone()))
    }

    /// Sets one, whether it is there or not.
    ///
    /// # Errors
    /// See [`SecretError`]; all are as they were then.
    pub fn set(&self, name: &SecretName, value: &Value, now_us: i64) -> Result<Was, SecretError> {
        self.change(&mut |_| Ok(()), |secrets| {
            match secrets.binary_search_by(|secret| secret.name.cmp(name)) {
                Ok(place) => {
                    secrets[place].value = value.clone();
                    secrets[place].updated_us = now_us;
                    Ok(Was::Replaced)
                }
                Err(place) => {
                    let (created_us, updated_us) = (now_us, now_us);
                    let (name, value) = (name.clone(), value.clone());
                    secrets.insert(place, Secret { name, created_us, updated_us, value });
                    Ok(Was::New)
                }
            }
        })
    }

    /// Deletes one.
    ///
    /// # Errors
    /// [`SecretError::NotFound`], and as for [`Secrets::set`].
    pub fn delete(&self, name: &SecretName) -> Result<(), SecretError> {
        self.change(&mut |_| Ok(()), |secrets| {
            let place = secrets.binary_search_by(|secret| secret.name.cmp(name));
            let place = place.map_err(|_| SecretError::NotFound { name: name.clone() })?;
            secrets.remove(place);
            Ok(())
        })
    }

    /// Changes all at once, alone. `before` is asked before every step of the write.
    fn change<T>(
        &self,
        before: &mut dyn FnMut(Step) -> io::Result<()>,
        change: impl FnOnce(&mut Vec<Secret>) -> Result<T, SecretError>,
    ) -> Result<T, SecretError> {
        let _alone = self.lock()?;
        let (mut secrets, key) = match self.open()? {
            Some(file) => self.read(file)?,
            None => (Vec::new(), self.key_made()?),
        };
        let changed = change(&mut secrets)?;
        if secrets.len() > SECRETS_COUNT_MAX {
            return Err(SecretError::TooMany);
        }
        if secrets.iter().map(|secret| secret.value.0.len()).sum::<usize>() > ALL_BYTES_MAX {
            return Err(SecretError::Full);
        }
        let bytes = file::write(&key, &secrets)?;
        replace(&self.path(), &bytes, before).map_err(|source| self.failed("write", source))?;
        Ok(changed)
    }

    fn path(&self) -> PathBuf {
        self.directory.join("secrets")
    }

    fn key_path(&self) -> PathBuf {
        self.directory.join("secrets.key")
    }

    fn open(&self) -> Result<Option<File>, SecretError> {
        private::open_private(&self.path())
    }

    /// Waits until nobody else changes them; nobody does until this is dropped.
    fn lock(&self) -> Result<File, SecretError> {
        let path = self.directory.join("secrets.lock");
        lock_at(&path).map_err(|source| SecretError::File { step: "lock", path, source })
    }

    fn read(&self, file: File) -> Result<(Vec<Secret>, Key), SecretError> {
        let bytes = file::bytes(file).map_err(|source| self.failed("read", source))?;
        let path = self.key_path();
        let key = Key::read(&path)?.ok_or(SecretError::KeyMissing { path })?;
        let secrets = match file::read(&key, &bytes) {
            Read::Secrets(sealed) => sealed,
            Read::WrongKey => {
                return Err(SecretError::WrongKey { path: self.path(), key: self.key_path() });
            }
            Read::TooNew(found) => return Err(SecretError::TooNew { path: self.path(), found }),
            Read::Damaged(what) => return Err(SecretError::Damaged { path: self.path(), what }),
        };
        let opened = secrets.into_iter().map(|sealed: Sealed| sealed.open(&key));
        let opened: Option<Vec<Secret>> = opened.collect();
        let what = "a value cannot be decrypted";
        Ok((opened.ok_or(SecretError::Damaged { path: self.path(), what })?, key))
    }

    /// The key, which is made if nobody has yet.
    fn key_made(&self) -> Result<Key, SecretError> {
        let path = self.key_path();
        match Key::read(&path)? {
            Some(key) => Ok(key),
            None => Key::make(&path),
        }
    }

    fn failed(&self, step: &'static str, source: io::Error) -> SecretError {
        SecretError::File { step, path: self.path(), source }
    }
}

/// Where they are, for messages.
impl AsRef<Path> for Secrets {
    fn as_ref(&self) -> &Path {
        &self.directory
    }
}

#[cfg(test)]
mod tests;
