//! One session and what can be asked of it.

use super::Record;
use super::{NewSession, Session, SessionError, State, hide};
use crate::beneath;
use crate::changes::ChangesError;
use crate::node::Stamp;
use crate::view::{Baseline, View, ViewSpec};
use rustix::fs::{Gid, Mode, Uid};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

impl Session {
    /// Makes the directories, the whiteouts and, last, the record.
    pub(super) fn fill(
        &self,
        project: &OwnedFd,
        stamp: &Stamp,
        new: &NewSession<'_>,
    ) -> Result<(), SessionError> {
        let error = |path: &Path, source: Errno| SessionError::Make {
            path: path.to_owned(),
            source: source.into(),
        };
        for path in [self.upper(), self.work()] {
            let make = || {
                rustix::fs::mkdir(&path, Mode::RWXU)?;
                if rustix::process::geteuid().is_root() {
                    let (uid, gid) = new.written_by.unwrap_or((stamp.uid, stamp.gid));
                    let owner = (Uid::from_raw(uid), Gid::from_raw(gid));
                    rustix::fs::chown(&path, Some(owner.0), Some(owner.1))?;
                }
                Ok(())
            };
            make().map_err(|source| error(&path, source))?;
        }
        // The session sees the upper's mode as that of the project.
        rustix::fs::chmod(self.upper(), Mode::from_raw_mode(stamp.mode))
            .map_err(|source| error(&self.upper(), source))?;
        let upper = beneath::open_root(&self.upper())
            .map_err(|source| SessionError::Make { path: self.upper(), source })?;
        hide::hide(upper.as_fd(), project.as_fd(), new.format, &new.masked)
            .map_err(|(path, source)| SessionError::Hide { path, source: source.into() })?;
        self.write_record()
    }

    /// Replaces the record as a whole.
    fn write_record(&self) -> Result<(), SessionError> {
        let path = self.path.join("record.json");
        let write = || -> io::Result<()> {
            let new = self.path.join("record.json.new");
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&new)?;
            let mut text = serde_json::to_vec_pretty(&self.record)?;
            text.push(b'\n');
            file.write_all(&text)?;
            std::fs::rename(new, &path)
        };
        write().map_err(|source| SessionError::Make { path: path.clone(), source })
    }

    /// `ses_` and 16 hex digits.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The overlay's upper directory.
    #[must_use]
    pub fn upper(&self) -> PathBuf {
        self.path.join("upper")
    }

    /// The overlay's work directory, on the same file system.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    /// The process that runs the session, while it does.
    #[must_use]
    pub fn running_pid(&self) -> Option<u32> {
        self.record.state.live_pid()
    }

    /// Refuses when the session still runs.
    ///
    /// # Errors
    ///
    /// [`SessionError::Running`].
    pub fn check_ended(&self) -> Result<(), SessionError> {
        match self.running_pid() {
            Some(pid) => Err(SessionError::Running { id: self.id.clone(), pid }),
            None => Ok(()),
        }
    }

    /// Writes down that nothing writes to the session any more. Call it after
    /// the overlay is unmounted and its processes are gone.
    ///
    /// # Errors
    ///
    /// When the record cannot be written.
    pub fn end(&mut self) -> Result<(), SessionError> {
        self.record.state = State::Ended;
        self.write_record()
    }

    /// Opens the session and its project for [`crate::changes::read`] and
    /// [`crate::apply::apply`].
    ///
    /// # Errors
    ///
    /// When the project is not the directory that the session was made for, or
    /// either cannot be opened.
    pub fn view(&self) -> Result<View, SessionError> {
        let path = self.path.join("baseline");
        let baseline = match std::fs::read(&path) {
            Ok(bytes) => Baseline::parse(&bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Baseline::default(),
            Err(source) => return Err(SessionError::Read { path, source }),
        };
        let view = View::open(ViewSpec {
            upper: self.upper(),
            project: self.record.project.clone(),
            format: self.record.format,
            masked: self.record.masked.clone(),
            started: Some(self.record.started),
            stand_in: self.record.stand_in,
            baseline,
            is_running: self.running_pid().is_some(),
        });
        let view = view.map_err(|error| match error {
            ChangesError::Open { path, source } => SessionError::Project { path, source },
            other => SessionError::Project {
                path: self.record.project.clone(),
                source: io::Error::other(other),
            },
        })?;
        let project = beneath::stamp(view.project()).map_err(|source| SessionError::Project {
            path: self.record.project.clone(),
            source: source.into(),
        })?;
        if project.id() != (self.record.project_dev, self.record.project_ino) {
            let (id, path) = (self.id.clone(), self.record.project.clone());
            return Err(SessionError::OtherProject { id, path });
        }
        Ok(view)
    }

    /// Opens the file for [`Request::baseline`](crate::apply::Request::baseline).
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn open_baseline(&self) -> Result<File, SessionError> {
        let path = self.path.join("baseline");
        let opened = OpenOptions::new().create(true).append(true).open(&path);
        opened.map_err(|source| SessionError::Make { path, source })
    }
}
