//! Finding lines in files.

use super::Failure;
use super::glob::{PATTERN_BYTES_MAX, Pulse, check_limit, matcher};
use super::ignores::Ignores;
use super::list::FRAME_BYTES;
use super::problem::Asked;
use super::read::not_regular;
use super::root::{LastLink, Root, beneath, is_procfs};
use super::walk::{Found, Step, Visitor, open, walk};
use crate::channel::Channel;
use atoll_protocol::files::{Grep, LINE_BYTES_MAX, Match, TEXT_BYTES_MAX};
use atoll_protocol::frame::{self, JSON_BYTES_MAX};
use atoll_protocol::octets::Octets;
use atoll_protocol::problem::{Code, Problem};
use atoll_protocol::request::Reply;
use globset::GlobMatcher;
use regex::bytes::{Regex, RegexBuilder};
use rustix::fs::{FileType, OFlags};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Most memory that a compiled expression may take, and its cache, in bytes.
const EXPRESSION_BYTES_MAX: usize = 8 << 20;

/// How much of a file is read at a time, in bytes.
const READ_BYTES: usize = 128 << 10;

/// How many patterns of files there may be.
const INCLUDE_MAX: usize = 64;

pub(super) fn grep(root: &Root, request: &Grep, channel: &mut Channel) -> Result<Reply, Failure> {
    let asked = Asked::new("search", &request.path)?;
    check_limit(request.limit, &asked)?;
    let mut searcher = Searcher {
        root,
        expression: expression(request, &asked)?,
        include: include(request, &asked)?,
        ignores: Ignores::new(root, request.respects_ignore),
        pulse: Pulse::new(channel),
        matches: Vec::new(),
        room: request.limit as usize,
        bytes_left: JSON_BYTES_MAX - FRAME_BYTES,
        is_cut: false,
        searched: 0,
        skipped: 0,
    };
    let handle = root.handle(asked.path(), LastLink::Follow).map_err(|errno| asked.errno(errno))?;
    if is_procfs(&handle).map_err(|errno| asked.errno(errno))? {
        return Err(asked.problem(Code::Denied, "files of /proc can be read by a command").into());
    }
    let stat = rustix::fs::fstat(&handle).map_err(|errno| asked.errno(errno))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let top = beneath(std::os::fd::AsFd::as_fd(&handle), Path::new("."), flags)
                .map_err(|errno| asked.errno(errno))?;
            walk(top, &mut searcher)?;
        }
        FileType::RegularFile => {
            let file = root.open(&handle, OFlags::RDONLY).map_err(|errno| asked.errno(errno))?;
            let bytes = u64::try_from(stat.st_size).unwrap_or_default();
            searcher.search(file, bytes, Path::new(""))?;
        }
        _ => return Err(not_regular(&handle, &asked).into()),
    }
    let Searcher { mut matches, is_cut, searched, skipped, .. } = searcher;
    matches.sort_by(|one, other| {
        let key = |found: &Match| (found.path.as_path().to_owned(), found.line);
        key(one).cmp(&key(other))
    });
    Ok(Reply::Matches { matches, is_cut, searched, skipped })
}

fn expression(request: &Grep, asked: &Asked<'_>) -> Result<Regex, Problem> {
    if request.pattern.len() > PATTERN_BYTES_MAX {
        return Err(asked.problem(Code::Invalid, "the pattern is too long"));
    }
    let pattern =
        if request.is_literal { regex::escape(&request.pattern) } else { request.pattern.clone() };
    RegexBuilder::new(&pattern)
        .case_insensitive(request.ignores_case)
        .size_limit(EXPRESSION_BYTES_MAX)
        .dfa_size_limit(EXPRESSION_BYTES_MAX)
        .build()
        .map_err(|error| {
            asked.problem(Code::Invalid, format!("the pattern cannot be read: {error}"))
        })
}

/// Which files are searched, and whether that is said of the path or of the name.
fn include(request: &Grep, asked: &Asked<'_>) -> Result<Vec<(GlobMatcher, bool)>, Problem> {
    if request.include.len() > INCLUDE_MAX {
        return Err(asked.problem(Code::Invalid, format!("more than {INCLUDE_MAX} patterns")));
    }
    let one = |pattern: &String| Ok((matcher(pattern, asked)?, pattern.contains('/')));
    request.include.iter().map(one).collect()
}

struct Searcher<'a> {
    root: &'a Root,
    expression: Regex,
    include: Vec<(GlobMatcher, bool)>,
    ignores: Ignores<'a>,
    pulse: Pulse<'a>,
    matches: Vec<Match>,
    room: usize,
    bytes_left: usize,
    is_cut: bool,
    searched: u64,
    skipped: u64,
}

impl Visitor for Searcher<'_> {
    type Error = Failure;

    fn found(&mut self, found: &Found<'_>) -> Result<Step, Failure> {
        self.pulse.beat()?;
        let kind = FileType::from_raw_mode(found.stat.st_mode);
        let is_directory = kind == FileType::Directory;
        if self.ignores.has(found.path, is_directory) {
            return Ok(Step::Pass);
        }
        if is_directory {
            return Ok(Step::Enter);
        }
        let is_included = |(matcher, whole): &(GlobMatcher, bool)| {
            matcher.is_match(if *whole { found.path } else { Path::new(found.name) })
        };
        let is_wanted = self.include.is_empty() || self.include.iter().any(is_included);
        if kind != FileType::RegularFile || !is_wanted {
            return Ok(Step::Pass);
        }
        match open(self.root, found) {
            Ok((file, stat)) => {
                let bytes = u64::try_from(stat.st_size).unwrap_or_default();
                self.search(file, bytes, found.path)?;
            }
            Err(_) => self.skipped += 1,
        }
        Ok(if self.is_cut { Step::Stop } else { Step::Pass })
    }

    fn failed(&mut self, _path: &Path, _code: Code) -> Result<(), Failure> {
        self.skipped += 1;
        Ok(())
    }

    fn entered(&mut self, directory: BorrowedFd<'_>, path: &Path) {
        self.ignores.enter(directory, path);
    }

    fn left(&mut self) {
        self.ignores.leave();
    }
}

impl Searcher<'_> {
    /// Searches the first `bytes` of a file: it may grow for ever.
    fn search(&mut self, file: File, bytes: u64, path: &Path) -> Result<(), Failure> {
        self.searched += 1;
        let mut reader = BufReader::with_capacity(READ_BYTES, file.take(bytes));
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            match read_line(&mut reader, &mut line) {
                Ok(true) if !line.contains(&0) => {}
                Ok(false) => break,
                Ok(true) | Err(_) => {
                    self.skipped += 1;
                    break;
                }
            }
            if number % 4096 == 0 {
                self.pulse.beat()?;
            }
            if let Some(found) = self.expression.find(&line) {
                let text = &line[..line.len().min(TEXT_BYTES_MAX)];
                let found = Match {
                    path: Octets::new(path.as_os_str().as_bytes()).unwrap_or_default(),
                    line: number,
                    column: found.start() as u64,
                    text: String::from_utf8_lossy(text).into_owned(),
                };
                if !self.take(found) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Keeps a match if there is room for it.
    fn take(&mut self, found: Match) -> bool {
        let mut json = Vec::new();
        let bytes = frame::put_json(&mut json, frame::Kind::Reply, &found)
            .map_or(usize::MAX, |()| json.len() + 1);
        self.is_cut = self.room == 0 || bytes > self.bytes_left;
        if !self.is_cut {
            self.room -= 1;
            self.bytes_left -= bytes;
            self.matches.push(found);
        }
        !self.is_cut
    }
}

/// Reads a line, without its end, and of a long one only the beginning. No line is
/// left where this is false.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    let length = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', line)?;
    if line.pop_if(|last| *last == b'\n').is_some() {
        line.pop_if(|last| *last == b'\r');
    } else if length as u64 == LINE_BYTES_MAX {
        reader.skip_until(b'\n')?;
    }
    Ok(length > 0)
}
