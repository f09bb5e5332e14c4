//! Telling what changes in a directory and below.

use super::problem::{Asked, code};
use super::root::{Root, is_procfs, same};
use super::{Failure, Lost};
use crate::channel::Channel;
use atoll_protocol::files::{Change, WATCHES_MAX, Watch};
use atoll_protocol::frame::Kind;
use atoll_protocol::octets::Octets;
use atoll_protocol::problem::Code;
use atoll_protocol::request::{Event, Reply};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{AtFlags, Dir, FileType, OFlags};
use rustix::io::{Errno, Result as Called};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// How long nothing may be heard.
const SILENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// Most events that wait until the watch has begun.
const HELD_MAX: usize = 1024;

/// Room for what the kernel tells at a time, in bytes.
const READ_BYTES: usize = 64 << 10;

pub(super) fn watch(root: &Root, request: &Watch, channel: &mut Channel) -> Result<(), Failure> {
    let asked = Asked::new("watch", &request.path)?;
    let top = root.directory(asked.path()).map_err(|errno| asked.errno(errno))?;
    if is_procfs(&top).map_err(|errno| asked.errno(errno))? {
        return Err(asked.problem(Code::Denied, "it is a directory of /proc").into());
    }
    let inotify = rustix::fs::inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
    let inotify = inotify.map_err(|errno| asked.errno(errno))?;
    let mut watcher = Watcher {
        root,
        inotify: &inotify,
        recursive: request.recursive,
        paths: HashMap::new(),
        top_watch: root.watch(&inotify, &top, flags()).map_err(|errno| match errno {
            Errno::NOSPC => asked.problem(Code::Limit, "the sandbox may watch no more"),
            errno => asked.errno(errno),
        })?,
        top: asked.path(),
        top_id: id(&top).map_err(|errno| asked.errno(errno))?,
        channel,
        held: Some(Vec::new()),
    };
    // While it is held open, nothing tells of its end.
    drop(top);
    watcher.add(PathBuf::new(), Known::Already)?;
    watcher.begin()?;
    watcher.follow()
}

fn flags() -> WatchFlags {
    WatchFlags::CREATE
        | WatchFlags::MODIFY
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::ATTRIB
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
        | WatchFlags::ONLYDIR
}

/// Whether the host knows what is in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Already,
    NotYet,
}

struct Watcher<'a> {
    root: &'a Root,
    inotify: &'a OwnedFd,
    top: &'a Path,
    top_id: (u64, u64),
    top_watch: i32,
    recursive: bool,
    /// The directory that each watch is of, below the top one.
    paths: HashMap<i32, PathBuf>,
    channel: &'a mut Channel,
    /// Events of before the reply.
    held: Option<Vec<Event>>,
}

/// One event of the kernel.
struct Told {
    watch: i32,
    flags: ReadFlags,
    name: OsString,
}

impl Watcher<'_> {
    /// Tells everything until the host is gone, or the directory.
    fn follow(&mut self) -> Result<(), Failure> {
        let inotify = self.inotify;
        let mut buffer = vec![MaybeUninit::uninit(); READ_BYTES];
        let mut reader = Reader::new(inotify, &mut buffer);
        loop {
            let told = match reader.next() {
                Ok(event) => Told {
                    watch: event.wd(),
                    flags: event.events(),
                    name: event
                        .file_name()
                        .map(|name| OsStr::from_bytes(name.to_bytes()).to_owned())
                        .unwrap_or_default(),
                },
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {
                    if self.is_over()? {
                        return Ok(());
                    }
                    continue;
                }
                Err(errno) => {
                    let problem = super::Problem::new(Code::Failed, "could not watch any longer");
                    return Err(problem.with_errno(Some(errno.raw_os_error())).into());
                }
            };
            let is_gone = ReadFlags::DELETE_SELF
                | ReadFlags::MOVE_SELF
                | ReadFlags::UNMOUNT
                | ReadFlags::IGNORED;
            if told.watch == self.top_watch && told.flags.intersects(is_gone) {
                return self
                    .channel
                    .send_raw(Kind::End, &[])
                    .map_err(|error| Failure::Lost(Lost::Send(error)));
            }
            self.take(&told)?;
        }
    }

    /// Waits for something to tell; says whether the host is gone instead.
    fn is_over(&mut self) -> Result<bool, Failure> {
        let (is_heard, is_silent) = {
            let mut fds = [
                PollFd::new(&*self.channel, PollFlags::IN),
                PollFd::new(self.inotify, PollFlags::IN),
            ];
            let ready = match poll(&mut fds, Some(&SILENCE)) {
                Err(Errno::INTR) => return Ok(false),
                ready => ready.map_err(|errno| Failure::Lost(Lost::Send(errno.into())))?,
            };
            (!fds[0].revents().is_empty(), ready == 0)
        };
        if is_silent {
            let alive = self.channel.send_raw(Kind::Heartbeat, &[]);
            alive.map_err(|error| Failure::Lost(Lost::Send(error)))?;
        }
        // There is nothing that the host would say, so it is its end.
        Ok(is_heard)
    }

    fn take(&mut self, told: &Told) -> Result<(), Failure> {
        if told.flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.tell(Event::Overflowed)?;
            // Directories that were made meanwhile are not watched yet.
            return self.add(PathBuf::new(), Known::Already);
        }
        if told.flags.contains(ReadFlags::IGNORED) {
            self.paths.remove(&told.watch);
            return Ok(());
        }
        let Some(directory) = self.paths.get(&told.watch) else { return Ok(()) };
        // Of a directory itself its own directory tells.
        if told.name.is_empty() {
            return Ok(());
        }
        let path = directory.join(&told.name);
        let is_directory = told.flags.contains(ReadFlags::ISDIR);
        let change = if told.flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
            Change::Made
        } else if told.flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
            Change::Removed
        } else if told.flags.contains(ReadFlags::CLOSE_WRITE) {
            Change::Written
        } else if told.flags.contains(ReadFlags::MODIFY) {
            Change::Modified
        } else if told.flags.contains(ReadFlags::ATTRIB) {
            Change::Attributes
        } else {
            return Ok(());
        };
        if is_directory && told.flags.contains(ReadFlags::MOVED_FROM) {
            self.forget(&path);
        }
        self.changed(&path, change, is_directory)?;
        if is_directory && change == Change::Made && self.recursive {
            self.add(path, Known::NotYet)?;
        }
        Ok(())
    }

    /// Watches a directory, and those below it if that was asked for. Each is
    /// watched before its names are read, so none that is made meanwhile is missed.
    fn add(&mut self, path: PathBuf, known: Known) -> Result<(), Failure> {
        let mut waiting = vec![path];
        while let Some(path) = waiting.pop() {
            let added = self.open(&path).and_then(|directory| {
                if self.paths.len() >= WATCHES_MAX {
                    return Err(Errno::NOSPC);
                }
                let watch = self.root.watch(self.inotify, &directory, flags())?;
                self.paths.insert(watch, path.clone());
                Dir::new(directory)
            });
            let mut names = match added {
                Ok(names) => names,
                // It is gone, or was exchanged for something else.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(errno) => {
                    self.unwatched(&path, errno)?;
                    continue;
                }
            };
            if !self.recursive {
                continue;
            }
            while let Some(Ok(entry)) = names.next() {
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                if name == "." || name == ".." {
                    continue;
                }
                let path = path.join(name);
                let is_directory = match entry.file_type() {
                    FileType::Unknown => is_directory(&names, name),
                    kind => kind == FileType::Directory,
                };
                if known == Known::NotYet {
                    self.changed(&path, Change::Made, is_directory)?;
                }
                if is_directory && waiting.len() < WATCHES_MAX {
                    waiting.push(path);
                } else if is_directory {
                    self.unwatched(&path, Errno::NOSPC)?;
                }
            }
        }
        Ok(())
    }

    fn open(&self, path: &Path) -> Called<OwnedFd> {
        let top = self.root.directory(self.top)?;
        if id(&top)? != self.top_id {
            // It was moved, which is told next.
            return Err(Errno::NOENT);
        }
        if path.as_os_str().is_empty() {
            return Ok(top);
        }
        same(top.as_fd(), path.as_os_str(), OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Watches what was moved away no longer: its path is another now.
    fn forget(&mut self, path: &Path) {
        let inotify = self.inotify;
        self.paths.retain(|watch, known| {
            let is_below = known.starts_with(path);
            if is_below {
                // Gone with its directory, if this fails.
                rustix::fs::inotify::remove_watch(inotify, *watch).ok();
            }
            !is_below
        });
    }

    fn changed(&mut self, path: &Path, change: Change, is_directory: bool) -> Result<(), Failure> {
        self.tell(Event::Changed { path: octets(path), change, is_directory })
    }

    fn unwatched(&mut self, path: &Path, errno: Errno) -> Result<(), Failure> {
        // The kernel's word for too many watches is that of a full disk.
        let code = if errno == Errno::NOSPC { Code::Limit } else { code(errno) };
        self.tell(Event::Unwatched { path: octets(path), code })
    }

    fn tell(&mut self, event: Event) -> Result<(), Failure> {
        match &mut self.held {
            Some(held) if held.len() < HELD_MAX => held.push(event),
            Some(_) => {}
            None => {
                let sent = self.channel.send(Kind::Event, &event);
                sent.map_err(|error| Failure::Lost(Lost::Send(error)))?;
            }
        }
        Ok(())
    }

    /// Says that the watch has begun, and what was held back until then.
    fn begin(&mut self) -> Result<(), Failure> {
        let sent = self.channel.send(Kind::Reply, &Reply::Done);
        sent.map_err(|error| Failure::Lost(Lost::Send(error)))?;
        for event in self.held.take().unwrap_or_default() {
            self.tell(event)?;
        }
        Ok(())
    }
}

fn id(directory: &OwnedFd) -> Called<(u64, u64)> {
    rustix::fs::fstat(directory).map(|stat| (stat.st_dev, stat.st_ino))
}

/// Of a file system that does not say so in its directories.
fn is_directory(names: &Dir, name: &OsStr) -> bool {
    names
        .fd()
        .and_then(|directory| rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW))
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

fn octets(path: &Path) -> Octets {
    Octets::new(path.as_os_str().as_bytes()).unwrap_or_default()
}
