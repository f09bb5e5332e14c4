//! A host that asks one question at a time.

use atoll_guest::channel::Channel;
use atoll_guest::files::{Lost, Outcome, Root, serve};
use atoll_protocol::files::{
    Archive, Existing, List, Look, MakeDirectory, Move, Read, Remove, SetMode, Stat, Unpack, Write,
};
use atoll_protocol::frame::{self, Decoder, Kind};
use atoll_protocol::octets::Octets;
use atoll_protocol::problem::{Code, Problem};
use atoll_protocol::request::{Event, Reply, Request};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// A directory that is a sandbox's root, one beside it that is outside, and what
/// is in that one.
#[derive(Debug)]
pub(crate) struct Sandbox {
    base: tempfile::TempDir,
}

/// What came for one request.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) reply: Option<Reply>,
    pub(crate) problem: Option<Problem>,
    pub(crate) events: Vec<Event>,
    pub(crate) body: Vec<u8>,
    pub(crate) has_end: bool,
}

/// What the canary outside holds.
pub(crate) const SECRET: &str = "what is outside";

impl Sandbox {
    pub(crate) fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir(base.path().join("root")).unwrap();
        std::fs::create_dir(base.path().join("outside")).unwrap();
        let secret = base.path().join("outside/secret");
        std::fs::write(&secret, SECRET).unwrap();
        std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o640)).unwrap();
        Self { base }
    }

    /// The root, as it is outside.
    pub(crate) fn root(&self) -> PathBuf {
        self.base.path().join("root")
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.base.path().join("outside")
    }

    /// Something in the root, as it is outside.
    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        self.root().join(inside.trim_start_matches('/'))
    }

    pub(crate) fn put(&self, inside: &str, content: impl AsRef<[u8]>) {
        let path = self.path(inside);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn link(&self, inside: &str, target: impl AsRef<Path>) {
        std::os::unix::fs::symlink(target, self.path(inside)).unwrap();
    }

    /// Fails if anything outside was changed.
    pub(crate) fn assert_outside_is_as_it_was(&self) {
        let names: Vec<_> =
            self.outside().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["secret"]);
        let secret = self.outside().join("secret");
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), SECRET);
        assert_eq!(secret.metadata().unwrap().permissions().mode() & 0o7777, 0o640);
        let beside = self.base.path().read_dir().unwrap().count();
        assert_eq!(beside, 2, "something was made beside the root");
    }

    /// Starts a worker for one request; what it sees as its end when it ends.
    pub(crate) fn start(&self, request: Request) -> (UnixStream, std::thread::JoinHandle<Outcome>) {
        let (host, worker) = UnixStream::pair().unwrap();
        let directory = std::fs::File::open(self.root()).unwrap();
        let worker = std::thread::spawn(move || {
            let root = Root::new(directory.into()).unwrap();
            let mut channel = Channel::new(worker.into(), Decoder::default());
            serve(request, &mut channel, &root)
        });
        (host, worker)
    }

    /// Asks, sends `body` if there is one, and takes the whole answer.
    pub(crate) fn ask_with(&self, request: Request, body: Option<&[u8]>) -> Answer {
        let (mut host, worker) = self.start(request);
        if let Some(body) = body {
            let mut bytes = Vec::new();
            for piece in body.chunks(frame::DATA_BYTES_MAX) {
                bytes.extend(frame::header(Kind::Body, piece.len()));
                bytes.extend(piece);
            }
            bytes.extend(frame::header(Kind::End, 0));
            host.write_all(&bytes).unwrap();
        }
        let answer = Answer::take(&mut host);
        match worker.join().unwrap() {
            Outcome::Done => assert!(answer.problem.is_none()),
            Outcome::Refused(problem) => assert_eq!(answer.problem, Some(problem)),
            Outcome::Lost(lost @ (Lost::Gone | Lost::Receive(_) | Lost::Send(_))) => {
                panic!("the worker lost the host: {lost}")
            }
        }
        answer
    }

    pub(crate) fn ask(&self, request: Request) -> Answer {
        self.ask_with(request, None)
    }

    pub(crate) fn read(&self, path: &str) -> Answer {
        self.ask(Request::Read(Read { path: octets(path), offset: 0, length: None }))
    }

    pub(crate) fn write(&self, path: &str, content: &[u8]) -> Answer {
        self.ask_with(Request::Write(writing(path)), Some(content))
    }

    pub(crate) fn list(&self, path: &str, depth: u32, limit: u32) -> Answer {
        self.ask(Request::List(List { path: octets(path), depth, limit }))
    }

    pub(crate) fn look(&self, path: &str, follow: bool) -> Answer {
        self.ask(Request::Look(Look { path: octets(path), follow }))
    }

    pub(crate) fn make(&self, path: &str, make_parents: bool) -> Answer {
        let path = octets(path);
        self.ask(Request::MakeDirectory(MakeDirectory { path, mode: None, make_parents }))
    }

    pub(crate) fn remove(&self, path: &str, recursive: bool) -> Answer {
        self.ask(Request::Remove(Remove { path: octets(path), recursive }))
    }

    pub(crate) fn rename(&self, from: &str, to: &str, replace: bool) -> Answer {
        self.ask(Request::Move(Move { from: octets(from), to: octets(to), replace }))
    }

    pub(crate) fn archive(&self, path: &str) -> Answer {
        self.ask(Request::Archive(Archive { path: octets(path) }))
    }

    pub(crate) fn unpack(&self, path: &str, archive: &[u8]) -> Answer {
        let request = Unpack { path: octets(path), make_parents: true };
        self.ask_with(Request::Unpack(request), Some(archive))
    }

    pub(crate) fn set_mode(&self, path: &str, mode: u32) -> Answer {
        self.ask(Request::SetMode(SetMode { path: octets(path), mode }))
    }
}

impl Answer {
    /// Takes frames until the connection ends.
    fn take(host: &mut UnixStream) -> Self {
        let (mut decoder, mut answer) = (Decoder::default(), Self::default());
        loop {
            let length = host.read(decoder.space()).unwrap();
            if length == 0 {
                break;
            }
            decoder.filled(length);
            while let Some(frame) = decoder.next().unwrap() {
                match frame.kind {
                    Kind::Reply => answer.reply = Some(frame.json().unwrap()),
                    Kind::Problem => answer.problem = Some(frame.json().unwrap()),
                    Kind::Event => answer.events.push(frame.json().unwrap()),
                    Kind::Body => answer.body.extend(frame.payload),
                    Kind::End => answer.has_end = true,
                    kind => panic!("a {kind:?} frame"),
                }
            }
        }
        assert!(!decoder.is_within_frame());
        answer
    }

    #[track_caller]
    pub(crate) fn stat(&self) -> &Stat {
        match &self.reply {
            Some(Reply::Stat(stat)) if self.problem.is_none() => stat,
            _ => panic!("{self:?}"),
        }
    }

    /// The text of a file that was read whole.
    #[track_caller]
    pub(crate) fn text(&self) -> &str {
        self.stat();
        assert!(self.has_end);
        std::str::from_utf8(&self.body).unwrap()
    }

    #[track_caller]
    pub(crate) fn done(&self) {
        assert_eq!(self.reply, Some(Reply::Done), "{self:?}");
    }

    #[track_caller]
    pub(crate) fn entries(&self) -> (&[Stat], bool) {
        match &self.reply {
            Some(Reply::Entries { entries, is_cut }) => (entries, *is_cut),
            _ => panic!("{self:?}"),
        }
    }

    /// The names of a listing.
    #[track_caller]
    pub(crate) fn names(&self) -> Vec<String> {
        self.entries().0.iter().map(|entry| entry.path.to_string()).collect()
    }

    #[track_caller]
    pub(crate) fn refused(&self, code: Code) {
        let refused = self.problem.as_ref().map(|problem| problem.code);
        assert_eq!(refused, Some(code), "{self:?}");
        assert!(self.body.is_empty());
    }
}

pub(crate) fn octets(path: &str) -> Octets {
    path.try_into().unwrap()
}

pub(crate) fn writing(path: &str) -> Write {
    Write { path: octets(path), existing: Existing::Replace, mode: None, make_parents: false }
}
