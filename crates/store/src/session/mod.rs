//! Review sessions on disk.
//!
//! Each is a directory `ses_` + 16 hex digits in the sessions directory, which
//! only its owner can enter:
//!
//! | name | what |
//! |---|---|
//! | `record.json` | [`Record`]; written last and replaced as a whole, so that a directory without one was never finished |
//! | `upper/` | the overlay's upper directory, with the project's owner and mode |
//! | `work/` | the overlay's work directory, empty |
//! | `baseline` | [`Baseline`](crate::view::Baseline); there after the first apply |
//!
//! A session is created by the process that runs it ([`Sessions::create`]),
//! ended by it ([`Session::end`]), and then looked at, applied and at last
//! discarded by others. If the process is gone without ending it, the session
//! counts as ended; if it is gone before there is a record, the next one that creates a
//! session removes what there is.

mod hide;
mod one;
mod record;

pub use record::{Record, State};

use crate::beneath;
use crate::node::{Stamp, Time};
use crate::overlay::Format;
use crate::remove;
use crate::view::StandIn;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// How discarded sessions are called until they are gone.
const TRASH_PREFIX: &str = ".trash-";
/// Larger records are not read.
const LARGEST_RECORD: u64 = 64 << 20;

/// Why something could not be done with a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("could not use the sessions directory {}", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("the sessions directory {} is open to others or not yours", path.display())]
    NotPrivate { path: PathBuf },
    #[error("{id:?} is not the id of a session, which is ses_ and 16 hex digits")]
    BadId { id: String },
    #[error("there is no session {id}")]
    NoSuch { id: String },
    #[error("could not read the record {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the record {} is damaged", path.display())]
    Damaged { path: PathBuf, source: serde_json::Error },
    #[error("the record {} has version {found}, which is newer than this program", path.display())]
    Newer { path: PathBuf, found: u32 },
    #[error("could not open the project {}", path.display())]
    Project { path: PathBuf, source: io::Error },
    #[error("the sessions directory {} lies inside the project {}", sessions.display(), project.display())]
    InsideProject { sessions: PathBuf, project: PathBuf },
    #[error("could not make {}", path.display())]
    Make { path: PathBuf, source: io::Error },
    #[error("could not hide {} from the session", path.display())]
    Hide { path: PathBuf, source: io::Error },
    #[error("session {id} is still running, as process {pid}")]
    Running { id: String, pid: u32 },
    #[error("session {id} is being applied or discarded by another process")]
    Busy { id: String },
    #[error("{} is not the directory that session {id} was made for", path.display())]
    OtherProject { id: String, path: PathBuf },
    #[error("could not remove {}", path.display())]
    Remove { path: PathBuf, source: io::Error },
}

/// The directory that holds the sessions of one user.
#[derive(Debug)]
pub struct Sessions {
    path: PathBuf,
    dir: OwnedFd,
}

/// What [`Sessions::create`] needs to know.
#[derive(Debug)]
pub struct NewSession<'a> {
    /// The project's directory, absolute.
    pub project: &'a Path,
    /// How the overlay will be mounted.
    pub format: Format,
    /// Paths, relative to the project, that the session must not see. A
    /// whiteout is put at each.
    pub masked: BTreeSet<PathBuf>,
    /// User and group that write the upper, if they are not the project's
    /// owner: there they stand for it.
    pub written_by: Option<(u32, u32)>,
    /// A person is to approve what is applied; where the policy says so.
    pub apply_asks: Option<String>,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    id: String,
    path: PathBuf,
    record: Record,
}

/// What [`Sessions::list`] found.
#[derive(Debug, Default)]
pub struct Listed {
    /// The newest first.
    pub sessions: Vec<Session>,
    /// Those whose record cannot be read, with the reason. They can be
    /// discarded by their id.
    pub broken: Vec<(String, SessionError)>,
}

/// Keeps others from applying or discarding the session while it is held.
#[derive(Debug)]
pub struct Lock {
    _dir: OwnedFd,
}

impl Sessions {
    /// Opens `state/sessions`, making both directories if need be.
    ///
    /// # Errors
    ///
    /// When it cannot be made or opened, or is not the caller's alone.
    pub fn open(state: &Path) -> Result<Self, SessionError> {
        let path = state.join("sessions");
        let error = |source: io::Error| SessionError::Directory { path: path.clone(), source };
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(builder.recursive(true), 0o700);
        builder.create(&path).map_err(error)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::open(&path, flags, Mode::empty()).map_err(|e| error(e.into()))?;
        let stamp = beneath::stamp(&dir).map_err(|e| error(e.into()))?;
        let me = rustix::process::geteuid().as_raw();
        if stamp.uid != me || stamp.mode & 0o077 != 0 {
            return Err(SessionError::NotPrivate { path });
        }
        // Who can write the directory around it could exchange it during a run.
        let around = std::fs::symlink_metadata(state).map_err(error)?;
        let at = std::fs::metadata(state).map_err(error)?;
        if around.uid() != me || at.uid() != me || at.mode() & 0o022 != 0 {
            return Err(SessionError::NotPrivate { path: state.to_owned() });
        }
        Ok(Self { path, dir })
    }

    /// Creates a session that the calling process runs. Its start time is taken
    /// first, before anything of the project is looked at.
    ///
    /// # Errors
    ///
    /// When the project cannot be opened or holds the sessions directory, or
    /// something cannot be made. Nothing is left behind then.
    pub fn create(&self, new: &NewSession<'_>) -> Result<Session, SessionError> {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        let started = Time { sec: now.tv_sec, nsec: u32::try_from(now.tv_nsec).unwrap_or(0) };
        let project_error =
            |source: io::Error| SessionError::Project { path: new.project.to_owned(), source };
        let project = beneath::open_root(new.project).map_err(project_error)?;
        let stamp = beneath::stamp(&project).map_err(|error| project_error(error.into()))?;
        self.check_outside(&stamp, new.project)?;
        self.sweep_unfinished();
        let (id, path, _lock) = self.new_dir()?;
        let make_error = |source: io::Error| SessionError::Make { path: path.clone(), source };
        let record = Record {
            version: record::version(new.apply_asks.is_some()),
            project: new.project.to_owned(),
            project_dev: stamp.dev,
            project_ino: stamp.ino,
            started,
            uid: stamp.uid,
            stand_in: new.written_by.map(|upper| StandIn { upper, host: (stamp.uid, stamp.gid) }),
            format: new.format,
            masked: new.masked.clone(),
            apply_asks: new.apply_asks.clone(),
            state: State::running_here().map_err(make_error)?,
        };
        let session = Session { id, path: path.clone(), record };
        let made = session.fill(&project, &stamp, new);
        if made.is_err() {
            // The first failure is the one to tell.
            remove::remove(self.dir.as_fd(), OsStr::new(&session.id)).ok();
        }
        made.map(|()| session)
    }

    /// Removes what was left by processes that were killed while they made a session:
    /// directories without a record whose lock nobody has.
    fn sweep_unfinished(&self) {
        let is_finished = |name: &str| {
            let record = Path::new(name).join("record.json");
            let found = rustix::fs::statat(&self.dir, record, AtFlags::SYMLINK_NOFOLLOW);
            !matches!(found, Err(Errno::NOENT))
        };
        let Ok(names) = beneath::names(self.dir.as_fd(), Path::new("")) else { return };
        for name in names.iter().filter_map(|name| name.to_str()) {
            if check_id(name).is_err() || is_finished(name) {
                continue;
            }
            // It may have been finished until the lock was there.
            if let Ok(_lock) = self.lock(name)
                && !is_finished(name)
            {
                // What cannot go now does so later.
                remove::remove(self.dir.as_fd(), OsStr::new(name)).ok();
            }
        }
    }

    /// A new directory and the lock on it, to be held until it has a record.
    fn new_dir(&self) -> Result<(String, PathBuf, Lock), SessionError> {
        loop {
            let id = format!("ses_{:016x}", random(&self.path)?);
            match rustix::fs::mkdirat(&self.dir, &id, Mode::RWXU) {
                Err(Errno::EXIST) => continue,
                Err(error) => {
                    return Err(SessionError::Make {
                        path: self.path.join(id),
                        source: error.into(),
                    });
                }
                Ok(()) => {}
            }
            let lock = match self.lock(&id) {
                // Somebody swept between the two calls.
                Err(SessionError::NoSuch { .. } | SessionError::Busy { .. }) => continue,
                lock => lock?,
            };
            let path = self.path.join(&id);
            if path.exists() {
                return Ok((id, path, lock));
            }
        }
    }

    /// Refuses a project that holds the sessions directory: an overlay's upper
    /// may not lie in its lower.
    fn check_outside(&self, project: &Stamp, path: &Path) -> Result<(), SessionError> {
        let error = |source: Errno| SessionError::Directory {
            path: self.path.clone(),
            source: source.into(),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at = rustix::fs::openat(&self.dir, ".", flags, Mode::empty()).map_err(error)?;
        let mut id = beneath::stamp(&at).map_err(error)?.id();
        loop {
            if id == project.id() {
                return Err(SessionError::InsideProject {
                    sessions: self.path.clone(),
                    project: path.to_owned(),
                });
            }
            at = rustix::fs::openat(&at, "..", flags, Mode::empty()).map_err(error)?;
            let above = beneath::stamp(&at).map_err(error)?.id();
            if above == id {
                return Ok(());
            }
            id = above;
        }
    }

    /// Reads one session.
    ///
    /// # Errors
    ///
    /// When there is none of this id or its record cannot be read.
    pub fn get(&self, id: &str) -> Result<Session, SessionError> {
        check_id(id)?;
        let path = self.path.join(id);
        let record = match read_record(&self.dir, id) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.exists() => {
                return Err(SessionError::NoSuch { id: id.to_owned() });
            }
            Err(source) => {
                return Err(SessionError::Read { path: path.join("record.json"), source });
            }
        };
        let path_of_record = || path.join("record.json");
        #[derive(serde::Deserialize)]
        struct Versioned {
            version: u32,
        }
        let damaged = |source| SessionError::Damaged { path: path_of_record(), source };
        let versioned: Versioned = serde_json::from_slice(&record).map_err(damaged)?;
        if versioned.version > record::VERSION {
            return Err(SessionError::Newer { path: path_of_record(), found: versioned.version });
        }
        let record = serde_json::from_slice(&record).map_err(damaged)?;
        Ok(Session { id: id.to_owned(), path, record })
    }

    /// Reads all sessions.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read.
    pub fn list(&self) -> Result<Listed, SessionError> {
        let names = beneath::names(self.dir.as_fd(), Path::new("")).map_err(|error| {
            SessionError::Directory { path: self.path.clone(), source: error.into() }
        })?;
        let mut listed = Listed::default();
        for name in
            names.iter().filter_map(|name| name.to_str()).filter(|name| check_id(name).is_ok())
        {
            match self.get(name) {
                Ok(session) => listed.sessions.push(session),
                // Discarded meanwhile.
                Err(SessionError::NoSuch { .. }) => {}
                Err(error) => listed.broken.push((name.to_owned(), error)),
            }
        }
        listed.sessions.sort_by(|a, b| (b.record.started, &b.id).cmp(&(a.record.started, &a.id)));
        listed.broken.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(listed)
    }

    /// Takes the right to apply or discard a session.
    ///
    /// # Errors
    ///
    /// When another process has it.
    pub fn lock(&self, id: &str) -> Result<Lock, SessionError> {
        check_id(id)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let error = |source: Errno| match source {
            Errno::NOENT => SessionError::NoSuch { id: id.to_owned() },
            Errno::WOULDBLOCK => SessionError::Busy { id: id.to_owned() },
            source => SessionError::Read { path: self.path.join(id), source: source.into() },
        };
        let dir = rustix::fs::openat(&self.dir, id, flags, Mode::empty()).map_err(error)?;
        rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive).map_err(error)?;
        Ok(Lock { _dir: dir })
    }

    /// Removes a session with all that it made. It is out of the list at once,
    /// even if removing its files is cut short; the next discard goes on with it.
    ///
    /// # Errors
    ///
    /// When it does not exist, still runs, is being applied, or cannot be
    /// removed.
    pub fn discard(&self, id: &str) -> Result<(), SessionError> {
        let lock = self.lock(id)?;
        self.discard_held(id, lock)
    }

    /// [`Self::discard`] by one who has the lock already.
    ///
    /// # Errors
    ///
    /// As [`Self::discard`], but for the lock.
    pub fn discard_held(&self, id: &str, _lock: Lock) -> Result<(), SessionError> {
        if let Ok(session) = self.get(id) {
            session.check_ended()?;
        }
        let trash = format!("{TRASH_PREFIX}{id}-{:016x}", random(&self.path)?);
        let error = |name: &OsStr, source: Errno| SessionError::Remove {
            path: self.path.join(name),
            source: source.into(),
        };
        rustix::fs::renameat(&self.dir, id, &self.dir, &trash)
            .map_err(|source| error(OsStr::new(id), source))?;
        let names = beneath::names(self.dir.as_fd(), Path::new(""));
        for name in names.map_err(|source| error(OsStr::new(""), source))? {
            if name.as_encoded_bytes().starts_with(TRASH_PREFIX.as_bytes()) {
                remove::remove(self.dir.as_fd(), &name).map_err(|source| error(&name, source))?;
            }
        }
        Ok(())
    }
}

fn read_record(dir: &OwnedFd, id: &str) -> io::Result<Vec<u8>> {
    let file = File::from(beneath::file(dir.as_fd(), &Path::new(id).join("record.json"))?);
    let mut text = Vec::new();
    file.take(LARGEST_RECORD).read_to_end(&mut text)?;
    Ok(text)
}

fn check_id(id: &str) -> Result<(), SessionError> {
    let is_hex =
        |digits: &str| digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    match id.strip_prefix("ses_") {
        Some(digits) if digits.len() == 16 && is_hex(digits) => Ok(()),
        _ => Err(SessionError::BadId { id: id.to_owned() }),
    }
}

fn random(path: &Path) -> Result<u64, SessionError> {
    getrandom::u64().map_err(|error| SessionError::Directory {
        path: path.to_owned(),
        source: io::Error::other(error),
    })
}
