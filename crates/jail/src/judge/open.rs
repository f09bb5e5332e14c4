//! Opening a file for a caller.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fcntl_setfl, fstat, openat, stat, statat};
use rustix::io::Errno;

use super::call::PathArgument;
use super::decide::{Act, Facts, Kind, Site, Verdict};
use super::footing::{Footing, is_proc};
use super::ledger::join;
use super::stand_in::{StandIn, Wanted};
use super::state::{Answer, Case, Judged, State, kind_at};
use super::walk::{Followed, Spot, Walk, is_open_to_all};

/// The device number of `/dev/tty`: whatever terminal the opener has.
const TTY: u64 = libc::makedev(5, 0);
/// The first major number of pseudo terminals, and how many there are
/// (Documentation/admin-guide/devices.txt).
const PTS: std::ops::Range<u32> = 136..144;

/// Flags that stay with an open file and that a caller may have asked for.
const STATUS: OFlags = OFlags::APPEND.union(OFlags::DIRECT).union(OFlags::NOATIME);

/// An open that would block.
pub(super) enum Waiting {
    /// Opens `object` when that no longer blocks: a FIFO that nobody reads, a
    /// file under a lease.
    Open { object: OwnedFd, flags: OFlags },
    /// A FIFO opened for reading: handed out when there is something to read,
    /// or when a writer came and went.
    Writer { file: OwnedFd, flags: OFlags },
}

/// What the caller asked for.
#[derive(Clone, Copy)]
struct Request {
    flags: OFlags,
    mode: u32,
}

impl Request {
    fn has(self, flags: OFlags) -> bool {
        self.flags.contains(flags)
    }

    fn is_temporary(self) -> bool {
        self.has(OFlags::TMPFILE)
    }

    fn creates(self) -> bool {
        self.has(OFlags::CREATE)
    }

    fn reads_only(self) -> bool {
        (self.flags & OFlags::ACCMODE) == OFlags::RDONLY && !self.has(OFlags::TRUNC)
    }

    fn follows(self) -> bool {
        !self.has(OFlags::NOFOLLOW) && !self.has(OFlags::CREATE | OFlags::EXCL)
    }

    /// The flags with which this process can open it without being led astray,
    /// kept waiting, or given a terminal.
    fn performed(self) -> OFlags {
        let safe = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        self.flags | safe
    }

    fn given(self, file: OwnedFd) -> Answer {
        let is_program = is_program(file.as_fd(), self.flags);
        Answer::File { file, cloexec: self.has(OFlags::CLOEXEC), is_program }
    }

    /// The same for opening once more what is there already.
    fn reopened(self) -> OFlags {
        self.performed().difference(OFlags::NOFOLLOW | OFlags::CREATE | OFlags::EXCL)
    }
}

/// One step of an open.
enum Step<'a> {
    Done(Answer),
    Follow(Spot<'a>),
}

impl State {
    pub(super) fn open(
        &mut self,
        case: &mut Case<'_>,
        path: PathArgument,
        flags: u32,
        mode: u32,
    ) -> Result<Answer, Errno> {
        let mut request = Request { flags: OFlags::from_bits_retain(flags), mode: mode & 0o7777 };
        if request.has(OFlags::PATH) {
            // It makes, reads and writes nothing whatever its other flags say
            // (open(2)), what is done with it later is judged then, and the
            // kernel lets no such descriptor be handed out.
            return Ok(Answer::Continue);
        }
        let mut walk = case.walk();
        let mut spot = case.spot(&mut walk, path)?;
        loop {
            match self.open_at(case, &mut request, spot)? {
                Step::Done(answer) => return Ok(answer),
                Step::Follow(link) => match walk.follow(link)? {
                    Followed::Spot(next) => spot = next,
                    Followed::Object(object) => return self.open_object(case, request, object),
                },
            }
        }
    }

    fn open_at<'a>(
        &mut self,
        case: &mut Case<'a>,
        request: &mut Request,
        spot: Spot<'a>,
    ) -> Result<Step<'a>, Errno> {
        if spot.is_dots() || spot.has_slash {
            if request.creates() && !request.is_temporary() {
                return Err(Errno::ISDIR);
            }
            request.flags |= OFlags::DIRECTORY;
        }
        let judged = self.judged(case, case.path_at(&spot)?);
        if judged.site == Site::Hidden {
            self.verdict(case, Act::Write, &judged, Facts::default())?;
        }
        if request.is_temporary() {
            // No name appears; the one that a link gives it later is judged then.
            if request.follows() && kind_at(spot.parent.as_fd(), &spot.name) == Some(Kind::Link) {
                return Ok(Step::Follow(spot));
            }
        } else if judged.site != Site::Free
            && let Some(answer) = self.judge_open(case, request, &spot, &judged)?
        {
            return Ok(Step::Done(answer));
        }
        if judged.path == b"/dev/tty" && is_own_terminal(&spot) {
            return open_terminal(case, *request).map(Step::Done);
        }
        self.perform(case, *request, spot, &judged.path)
    }

    /// Gives an answer if the call is not to be performed as it is.
    fn judge_open(
        &mut self,
        case: &mut Case<'_>,
        request: &mut Request,
        spot: &Spot<'_>,
        judged: &Judged,
    ) -> Result<Option<Answer>, Errno> {
        if judged.site == Site::Supervisor {
            if !is_shown(*request, judged) {
                self.verdict(case, Act::Write, judged, Facts::default())?;
            }
            return Ok(None);
        }
        let present = kind_at(spot.parent.as_fd(), &spot.name);
        let act = match present {
            None if request.creates() => Act::Create(Kind::File),
            None | Some(Kind::Directory) => return Ok(None),
            Some(_) if request.has(OFlags::CREATE | OFlags::EXCL) => return Ok(None),
            Some(_) if request.reads_only() => {
                // Nothing is made, and it must not be made if the host removes it now.
                request.flags.remove(OFlags::CREATE);
                return Ok(None);
            }
            Some(_) => Act::Write,
        };
        let answer = match self.verdict(case, act, judged, Facts::default())? {
            Verdict::Allow => None,
            Verdict::WithoutExecute => {
                request.mode &= !0o111;
                None
            }
            Verdict::BirthOfBare => {
                let Site::CompletesBare { directory } = &judged.site else { return Ok(None) };
                self.examine_bare(case, directory)?;
                self.ledger.birth(directory.clone());
                None
            }
            Verdict::WritePointer => {
                Some(self.begin_pointer(case, spot, &judged.path, request.mode)?)
            }
            Verdict::WriteCommondir => Some(self.write_commondir(case, spot, request.mode)?),
            Verdict::Note | Verdict::Birth | Verdict::JudgeConfig | Verdict::Refuse { .. } => None,
        };
        Ok(answer.map(|file| request.given(file)))
    }

    fn perform<'a>(
        &mut self,
        case: &mut Case<'a>,
        request: Request,
        spot: Spot<'a>,
        path: &[u8],
    ) -> Result<Step<'a>, Errno> {
        if let Some(stand_in) = self.stand_in(case, spot.parent.as_fd())?
            && matches!(
                kind_at(spot.parent.as_fd(), &spot.name),
                Some(Kind::File | Kind::Directory)
            )
        {
            let wanted = Wanted::Name { parent: spot.parent.as_fd(), name: &spot.name, path };
            let file = stand_in.open(case.caller.footing, wanted, request.performed())?;
            return finish(request, file).map(Step::Done);
        }
        if request.creates() || request.is_temporary() {
            self.become_creator(case)?;
        }
        let mode = Mode::from_raw_mode(request.mode);
        let opened = openat(spot.parent.as_fd(), &spot.name, request.performed(), mode);
        match opened {
            Ok(file) => {
                case.leftover = spot.parent.into_owned();
                finish(request, file).map(Step::Done)
            }
            Err(Errno::LOOP) if request.follows() => Ok(Step::Follow(spot)),
            Err(Errno::NOTDIR) if request.follows() && is_link(&spot) => Ok(Step::Follow(spot)),
            Err(error @ (Errno::NXIO | Errno::AGAIN)) if !request.has(OFlags::NONBLOCK) => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let object = openat(spot.parent.as_fd(), &spot.name, flags, Mode::empty())?;
                wait_for(request, object, error).map(Step::Done)
            }
            Err(error) => Err(error),
        }
    }

    /// Opens what a magic link led to.
    fn open_object(
        &mut self,
        case: &mut Case<'_>,
        request: Request,
        object: OwnedFd,
    ) -> Result<Answer, Errno> {
        let footing = case.caller.footing;
        let judged = self.judged(case, footing.path_of(object.as_fd())?);
        let is_judged = match judged.site {
            Site::Free => false,
            Site::Hidden => true,
            Site::Supervisor => !is_shown(request, &judged),
            _ => !request.reads_only(),
        };
        if is_judged {
            match self.verdict(case, Act::Write, &judged, Facts::default())? {
                Verdict::Allow => {}
                _ => return Err(Errno::ACCESS),
            }
        }
        if let Some(stand_in) = self.stand_in(case, object.as_fd())? {
            let wanted = Wanted::Object(object.as_fd());
            return finish(request, stand_in.open(footing, wanted, request.reopened())?);
        }
        match footing.reopen(object.as_fd(), request.reopened()) {
            Ok(file) => finish(request, file),
            Err(error @ (Errno::NXIO | Errno::AGAIN)) if !request.has(OFlags::NONBLOCK) => {
                wait_for(request, object, error)
            }
            Err(error) => Err(error),
        }
    }
}

impl State {
    /// Who opens files of procfs for this caller, if the judge is not to; `place` is
    /// the file or its directory.
    fn stand_in(&self, case: &Case<'_>, place: BorrowedFd<'_>) -> Result<Option<StandIn>, Errno> {
        match &self.home {
            Some(home) if is_proc(place) => home.stand_in(case.caller),
            _ => Ok(None),
        }
    }
}

/// Whether what lies in the supervisor's own directory of procfs is for this caller
/// too. The kernel would ask what this process may do, not the caller.
fn is_shown(request: Request, judged: &Judged) -> bool {
    request.reads_only() && is_open_to_all(&judged.path)
}

/// Whether the caller of an open with these flags may want to run what it writes:
/// then our own descriptor must not outlive its write. A file that becomes executable
/// later does so by a call that comes here, after this one.
pub(super) fn is_program(file: BorrowedFd<'_>, flags: OFlags) -> bool {
    let is_for_writing = flags.intersects(OFlags::RDWR | OFlags::WRONLY);
    is_for_writing && fstat(file).is_ok_and(|stat| stat.st_mode & 0o111 != 0)
}

fn is_link(spot: &Spot<'_>) -> bool {
    kind_at(spot.parent.as_fd(), &spot.name) == Some(Kind::Link)
}

/// Undoes what was added for this process's sake, and hands the file out.
fn finish(request: Request, file: OwnedFd) -> Result<Answer, Errno> {
    if request.has(OFlags::NONBLOCK) {
        return Ok(request.given(file));
    }
    let kept = request.flags & STATUS;
    if request.reads_only() && FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::Fifo {
        let waiting = Waiting::Writer { file, flags: kept };
        return Ok(Answer::Later { waiting, cloexec: request.has(OFlags::CLOEXEC) });
    }
    fcntl_setfl(&file, kept)?;
    Ok(request.given(file))
}

fn wait_for(request: Request, object: OwnedFd, error: Errno) -> Result<Answer, Errno> {
    let is_fifo = FileType::from_raw_mode(fstat(&object)?.st_mode) == FileType::Fifo;
    if error == Errno::NXIO && !is_fifo {
        return Err(error);
    }
    let waiting = Waiting::Open { object, flags: request.reopened() };
    Ok(Answer::Later { waiting, cloexec: request.has(OFlags::CLOEXEC) })
}

impl Waiting {
    /// The flags of the file that it gives.
    pub(super) fn flags(&self) -> OFlags {
        match self {
            Self::Open { flags, .. } | Self::Writer { flags, .. } => *flags,
        }
    }

    /// Tries again. Gives the file when the open would no longer block.
    pub(super) fn attempt(&self, footing: &Footing) -> Result<Option<OwnedFd>, Errno> {
        match self {
            Self::Open { object, flags } => match footing.reopen(object.as_fd(), *flags) {
                Ok(file) => {
                    fcntl_setfl(&file, *flags & STATUS)?;
                    Ok(Some(file))
                }
                Err(Errno::NXIO | Errno::AGAIN) => Ok(None),
                Err(error) => Err(error),
            },
            Self::Writer { file, flags } => {
                let mut polled = [rustix::event::PollFd::new(file, rustix::event::PollFlags::IN)];
                let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
                if rustix::event::poll(&mut polled, Some(&now))? == 0 {
                    return Ok(None);
                }
                let file = rustix::io::fcntl_dupfd_cloexec(file, 0)?;
                fcntl_setfl(&file, *flags)?;
                Ok(Some(file))
            }
        }
    }
}

fn is_own_terminal(spot: &Spot<'_>) -> bool {
    statat(spot.parent.as_fd(), &spot.name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|found| {
        FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice && found.st_rdev == TTY
    })
}

/// `/dev/tty` would be our terminal, so the caller's is opened by its own name.
fn open_terminal(case: &Case<'_>, request: Request) -> Result<Answer, Errno> {
    let device = u64::from(case.caller.terminal()?);
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    if !PTS.contains(&major) {
        return Err(Errno::NXIO);
    }
    let number = (major - PTS.start) * 256 + minor;
    let path = join(b"/dev/pts", number.to_string().as_bytes());
    if stat(path.as_slice())?.st_rdev != device {
        return Err(Errno::NXIO);
    }
    let file = openat(rustix::fs::CWD, path.as_slice(), request.reopened(), Mode::empty())?;
    finish(request, file)
}

/// Opens the last name of a path as an object, links followed if `follow`.
pub(super) fn object_at<'a>(
    walk: &mut Walk<'a>,
    mut spot: Spot<'a>,
    follow: bool,
) -> Result<OwnedFd, Errno> {
    const OBJECT: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
    loop {
        let object = openat(spot.parent.as_fd(), &spot.name, OBJECT, Mode::empty())?;
        let found = FileType::from_raw_mode(fstat(&object)?.st_mode);
        if found == FileType::Symlink && (follow || spot.has_slash) {
            match walk.follow(spot)? {
                Followed::Object(object) => return Ok(object),
                Followed::Spot(next) => spot = next,
            }
            continue;
        }
        if spot.has_slash && found != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        return Ok(object);
    }
}
