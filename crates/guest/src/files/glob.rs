//! Finding names.

use super::ignores::Ignores;
use super::list::{FRAME_BYTES, bytes_of};
use super::problem::Asked;
use super::root::{Root, is_procfs};
use super::walk::{Found, Step, Visitor, walk};
use super::{Failure, Lost, stat};
use crate::channel::Channel;
use atoll_protocol::files::{ENTRIES_MAX, Glob, Stat};
use atoll_protocol::frame::{JSON_BYTES_MAX, Kind};
use atoll_protocol::octets::Octets;
use atoll_protocol::problem::{Code, Problem};
use atoll_protocol::request::Reply;
use globset::{GlobBuilder, GlobMatcher};
use rustix::fs::FileType;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest pattern, in bytes.
pub(super) const PATTERN_BYTES_MAX: usize = 4096;

/// How long nothing may be heard.
const SILENCE: Duration = Duration::from_secs(5);

pub(super) fn glob(root: &Root, request: &Glob, channel: &mut Channel) -> Result<Reply, Failure> {
    let asked = Asked::new("search", &request.path)?;
    check_limit(request.limit, &asked)?;
    let pattern = matcher(&request.pattern, &asked)?;
    let top = root.directory(asked.path()).map_err(|errno| asked.errno(errno))?;
    if is_procfs(&top).map_err(|errno| asked.errno(errno))? {
        return Err(asked.problem(Code::Denied, "it is a directory of /proc").into());
    }
    let mut finder = Finder {
        pattern,
        ignores: Ignores::new(root, request.respects_ignore),
        pulse: Pulse::new(channel),
        entries: Vec::new(),
        room: request.limit as usize,
        bytes_left: JSON_BYTES_MAX - FRAME_BYTES,
        is_cut: false,
    };
    walk(top, &mut finder)?;
    let Finder { mut entries, is_cut, .. } = finder;
    entries.sort_by(|one, other| one.path.as_path().cmp(other.path.as_path()));
    Ok(Reply::Entries { entries, is_cut })
}

pub(super) fn check_limit(limit: u32, asked: &Asked<'_>) -> Result<(), Problem> {
    if (1..=ENTRIES_MAX).contains(&limit) {
        return Ok(());
    }
    Err(asked.problem(Code::Invalid, format!("the limit is not 1 to {ENTRIES_MAX}")))
}

/// What a pattern matches.
pub(super) fn matcher(pattern: &str, asked: &Asked<'_>) -> Result<GlobMatcher, Problem> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(asked.problem(Code::Invalid, "the pattern is too long"));
    }
    let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build();
    let glob = glob.map_err(|error| {
        asked.problem(Code::Invalid, format!("the pattern cannot be read: {}", error.kind()))
    })?;
    Ok(glob.compile_matcher())
}

struct Finder<'a> {
    pattern: GlobMatcher,
    ignores: Ignores<'a>,
    pulse: Pulse<'a>,
    entries: Vec<Stat>,
    room: usize,
    bytes_left: usize,
    is_cut: bool,
}

impl Visitor for Finder<'_> {
    type Error = Failure;

    fn found(&mut self, found: &Found<'_>) -> Result<Step, Failure> {
        self.pulse.beat()?;
        let is_directory = FileType::from_raw_mode(found.stat.st_mode) == FileType::Directory;
        if self.ignores.has(found.path, is_directory) {
            return Ok(Step::Pass);
        }
        if self.pattern.is_match(found.path) {
            let path = Octets::new(found.path.as_os_str().as_bytes()).unwrap_or_default();
            let entry = stat::from(found.stat, path, || stat::target(&found.directory, found.name));
            let bytes = bytes_of(&entry);
            if self.room == 0 || bytes > self.bytes_left {
                self.is_cut = true;
                return Ok(Step::Stop);
            }
            self.room -= 1;
            self.bytes_left -= bytes;
            self.entries.push(entry);
        }
        Ok(if is_directory { Step::Enter } else { Step::Pass })
    }

    /// Says so of the directory, if that is among the entries.
    fn failed(&mut self, path: &Path, code: Code) -> Result<(), Failure> {
        if let Some(entry) = self.entries.last_mut().filter(|last| last.path.as_path() == path) {
            entry.unread = Some(code);
        }
        Ok(())
    }

    fn entered(&mut self, directory: BorrowedFd<'_>, path: &Path) {
        self.ignores.enter(directory, path);
    }

    fn left(&mut self) {
        self.ignores.leave();
    }
}

/// Says now and then that we are alive, and learns whether the host is.
pub(super) struct Pulse<'a> {
    channel: &'a mut Channel,
    last: Instant,
}

impl<'a> Pulse<'a> {
    pub(super) fn new(channel: &'a mut Channel) -> Self {
        Self { channel, last: Instant::now() }
    }

    pub(super) fn beat(&mut self) -> Result<(), Failure> {
        if self.last.elapsed() < SILENCE {
            return Ok(());
        }
        self.last = Instant::now();
        self.channel
            .send_raw(Kind::Heartbeat, &[])
            .map_err(|error| Failure::Lost(Lost::Send(error)))
    }
}
