//! The keys of the API, in a file that holds their hashes.
//!
//! A key has 160 random bits, so that one round of SHA-256 is enough: there is nothing
//! to guess. Whoever reads the file cannot use what is in it.

use atoll_api::id::{ID_BYTES, KeyId};
use atoll_api::key::{KEY_PREFIX, KEYS_COUNT_MAX, Key, NewKey, Scope};
use atoll_api::time::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use subtle::ConstantTimeEq as _;

/// Random bytes in the secret of a key.
const SECRET_BYTES: usize = 20;
/// Largest file that is read: more than all keys with the longest notes take.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// The format of the file.
const VERSION: u32 = 1;

/// Why keys could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The file cannot be read or written.
    #[error("could not {step} the keys {}", path.display())]
    File {
        /// What was being done, as in "read".
        step: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What is in the file is not what was written, or a newer version wrote it.
    #[error("the keys {} cannot be understood", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        source: serde_json::Error,
    },
    /// A newer version wrote the file.
    #[error("the keys {} have format {found}; use a newer version", path.display())]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// There are as many keys as there may be.
    #[error("there are {KEYS_COUNT_MAX} keys, which is the most")]
    TooMany,
    /// There is no such key.
    #[error("no key {id}")]
    NotFound {
        /// The id.
        id: KeyId,
    },
    /// The system gave no random bytes.
    #[error("could not get random bytes for a key")]
    Random(#[source] getrandom::Error),
}

/// The keys of a server.
#[derive(Debug)]
pub struct KeyStore {
    path: PathBuf,
    kept: Mutex<Vec<Kept>>,
    /// Held while the file is written, so that changes come one after the other and
    /// nobody who only looks waits for the disk.
    writing: Mutex<()>,
}

/// A key as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    key: Key,
    /// SHA-256 of the secret, prefix included.
    sha256: [u8; 32],
}

#[derive(Debug, Serialize, Deserialize)]
struct Format {
    version: u32,
    keys: Vec<Kept>,
}

impl KeyStore {
    /// Reads the keys in `path`; there are none if there is no such file.
    ///
    /// # Errors
    /// If the file is there and cannot be read or understood.
    pub fn open(path: PathBuf) -> Result<Self, KeysError> {
        let kept = read(&path)?;
        Ok(Self { path, kept: Mutex::new(kept), writing: Mutex::default() })
    }

    /// Makes a key. Its secret is in the answer and nowhere else.
    ///
    /// # Errors
    /// There is no such key then.
    pub fn create(&self, scope: Scope, note: &str, now: Timestamp) -> Result<NewKey, KeysError> {
        let mut id = [0; ID_BYTES];
        getrandom::fill(&mut id).map_err(KeysError::Random)?;
        let mut random = [0; SECRET_BYTES];
        getrandom::fill(&mut random).map_err(KeysError::Random)?;
        let secret = spell(&random);
        let key = Key { id: KeyId::from_random(id), scope, note: note.to_owned(), created_at: now };
        let _writing = lock(&self.writing);
        let mut next = lock(&self.kept).clone();
        if next.len() >= KEYS_COUNT_MAX {
            return Err(KeysError::TooMany);
        }
        next.push(Kept { key: key.clone(), sha256: digest(&secret) });
        write(&self.path, &next)?;
        *lock(&self.kept) = next;
        Ok(NewKey { key, secret })
    }

    /// All keys, oldest first.
    pub fn list(&self) -> Vec<Key> {
        lock(&self.kept).iter().map(|kept| kept.key.clone()).collect()
    }

    /// Takes a key back: on return it opens nothing any more.
    ///
    /// # Errors
    /// It is as it was then.
    pub fn revoke(&self, id: KeyId) -> Result<(), KeysError> {
        let _writing = lock(&self.writing);
        let mut next = lock(&self.kept).clone();
        let before = next.len();
        next.retain(|kept| kept.key.id != id);
        if next.len() == before {
            return Err(KeysError::NotFound { id });
        }
        write(&self.path, &next)?;
        *lock(&self.kept) = next;
        Ok(())
    }

    /// Finds the key of a secret, in a time that says nothing about which it is.
    pub(crate) fn find(&self, secret: &str) -> Option<Key> {
        let sought = digest(secret);
        let mut found = None;
        for kept in lock(&self.kept).iter() {
            if bool::from(kept.sha256.ct_eq(&sought)) {
                found = Some(kept.key.clone());
            }
        }
        found
    }
}

/// What is behind the locks is replaced as a whole, so a panic leaves nothing half-made.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

fn spell(random: &[u8]) -> String {
    let mut secret = KEY_PREFIX.to_owned();
    for byte in random {
        // Writing to a string cannot fail.
        write!(secret, "{byte:02x}").unwrap_or_default();
    }
    secret
}

fn read(path: &Path) -> Result<Vec<Kept>, KeysError> {
    let failed = |source| KeysError::File { step: "read", path: path.to_owned(), source };
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    let format: Format = serde_json::from_slice(&bytes)
        .map_err(|source| KeysError::Damaged { path: path.to_owned(), source })?;
    if format.version != VERSION {
        return Err(KeysError::TooNew { path: path.to_owned(), found: format.version });
    }
    Ok(format.keys)
}

/// Puts a whole new file in the place of the old one, for its owner's eyes only.
fn write(path: &Path, kept: &[Kept]) -> Result<(), KeysError> {
    let failed = |source| KeysError::File { step: "write", path: path.to_owned(), source };
    let format = Format { version: VERSION, keys: kept.to_vec() };
    let bytes = serde_json::to_vec(&format).expect("keys have string keys only");
    let new = path.with_extension("new");
    // One that a server left behind when it was killed.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&new).map_err(failed)?;
    file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&new, path).map_err(failed)?;
    // A key that was taken back must not come back when the machine loses power.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = File::open(folder.unwrap_or(Path::new("."))).map_err(failed)?;
    folder.sync_all().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn store() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        (folder, path)
    }

    #[test]
    fn a_key_is_found_by_its_secret_until_it_is_revoked() {
        let (_folder, path) = store();
        let store = KeyStore::open(path.clone()).unwrap();
        let made = store.create(Scope::Run, "ci", Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(made.secret.len(), 4 + 40);
        let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        assert!(made.secret.strip_prefix("e2b_").unwrap().bytes().all(is_hex));
        let again = KeyStore::open(path).unwrap();
        for store in [&store, &again] {
            assert_eq!(store.find(&made.secret), Some(made.key.clone()));
            assert_eq!(store.find(&made.secret[..40]), None);
            assert_eq!(store.find(""), None);
        }
        again.revoke(made.key.id).unwrap();
        assert_eq!(again.find(&made.secret), None);
        assert!(matches!(again.revoke(made.key.id), Err(KeysError::NotFound { .. })));
    }

    #[test]
    fn the_file_is_private_and_has_no_secret() {
        let (_folder, path) = store();
        let store = KeyStore::open(path.clone()).unwrap();
        let made = store.create(Scope::Admin, "", Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(&made.key.id.to_string()));
        assert!(!text.contains(&made.secret["e2b_".len()..]));
    }

    #[test]
    fn what_cannot_be_understood_is_no_empty_file() {
        let (_folder, path) = store();
        fs::write(&path, "{}").unwrap();
        assert!(matches!(KeyStore::open(path.clone()), Err(KeysError::Damaged { .. })));
        fs::write(&path, r#"{"version":2,"keys":[]}"#).unwrap();
        assert!(matches!(KeyStore::open(path), Err(KeysError::TooNew { found: 2, .. })));
    }

    #[test]
    fn a_key_that_cannot_be_written_is_none() {
        let (folder, path) = store();
        let store = KeyStore::open(path).unwrap();
        let made = store.create(Scope::Read, "", Timestamp::UNIX_EPOCH).unwrap();
        drop(folder);
        assert!(store.create(Scope::Read, "", Timestamp::UNIX_EPOCH).is_err());
        assert!(store.revoke(made.key.id).is_err());
        assert_eq!(store.list(), [made.key]);
    }
}
