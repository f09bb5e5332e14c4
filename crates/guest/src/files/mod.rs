//! Files of the sandbox, for the host: read, write, list, look, make, remove,
//! move, set a mode, edit, find, watch, pack and unpack.
//!
//! A request is answered by a process of its own, which may block and may fail
//! without harm to others. Every path is resolved by the kernel beneath the
//! sandbox's root (`root`), without the links of `/proc` that lead anywhere;
//! what changes a name holds a descriptor of its directory and uses the last step
//! alone. So what others plant or exchange meanwhile leads to another place in the
//! sandbox, or to a failure, and never out of it.
//!
//! Content is read and written of regular files only. What a name stands for is
//! looked at by a descriptor that does not open it (`O_PATH`) and opened through
//! that descriptor, so nothing waits for a pipe or touches a device. Content of
//! `/proc` is not written, nor that of processes read: it would be the answering
//! process's own, or what its rights show.

mod archive;
mod content;
mod directory;
mod edit;
mod glob;
mod grep;
mod ignores;
mod list;
mod problem;
mod read;
mod relocate;
mod remove;
mod root;
mod staged;
mod stat;
mod tar;
mod unpack;
mod walk;
mod watch;
mod write;

pub use archive::pack_from;
pub use root::Root;
pub use unpack::{Links, Unpacked, unpack_into};

use crate::channel::{Channel, ReceiveError};
use atoll_protocol::frame::Kind;
use atoll_protocol::problem::{Code, Problem};
use atoll_protocol::request::{Reply, Request};
use rustix::fs::Mode;
use std::io;

/// How an operation went. The host has been told, if it is there.
#[derive(Debug)]
pub enum Outcome {
    /// It is done.
    Done,
    /// It failed.
    Refused(Problem),
    /// The host is gone, or not to be understood.
    Lost(Lost),
}

/// Why nobody hears the answer.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// The host ended the connection before it had said everything.
    #[error("the host ended the connection")]
    Gone,
    /// What the host says cannot be received.
    #[error("could not receive the request's content")]
    Receive(#[source] ReceiveError),
    /// The answer cannot be sent.
    #[error("could not send the answer")]
    Send(#[source] io::Error),
}

/// Why a handler has no reply.
#[derive(Debug)]
enum Failure {
    Refused(Problem),
    Lost(Lost),
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem)
    }
}

/// Carries out what `request` asks of the sandbox's files, and answers. The hellos
/// and the request itself are behind; `channel` goes on after them.
///
/// Works with the rights of the calling process, and sets its umask to 0.
pub fn serve(request: Request, channel: &mut Channel, root: &Root) -> Outcome {
    rustix::process::umask(Mode::empty());
    let sends_body = matches!(request, Request::Write(_) | Request::Unpack(_));
    let answered = answer(request, channel, root).and_then(|reply| match reply {
        Some(reply) => match channel.send(Kind::Reply, &reply) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                Err(Problem::new(Code::Limit, "the answer is too long").into())
            }
            sent => sent.map_err(|error| Failure::Lost(Lost::Send(error))),
        },
        None => Ok(()),
    });
    match answered {
        Ok(()) => Outcome::Done,
        Err(Failure::Lost(lost)) => Outcome::Lost(lost),
        Err(Failure::Refused(problem)) => {
            if let Err(error) = channel.send_problem(&problem) {
                return Outcome::Lost(Lost::Send(error));
            }
            if sends_body {
                channel.drain();
            }
            Outcome::Refused(problem)
        }
    }
}

/// The reply that is left to send; none where the handler has sent everything.
fn answer(request: Request, channel: &mut Channel, root: &Root) -> Result<Option<Reply>, Failure> {
    let reply = match request {
        Request::Read(request) => {
            read::read(root, &request, channel)?;
            return Ok(None);
        }
        Request::Write(request) => write::write(root, &request, channel)?,
        Request::List(request) => list::list(root, &request)?,
        Request::Look(request) => stat::look(root, &request)?,
        Request::MakeDirectory(request) => directory::make(root, &request)?,
        Request::Remove(request) => remove::remove(root, &request)?,
        Request::Move(request) => relocate::relocate(root, &request)?,
        Request::SetMode(request) => stat::set_mode(root, &request)?,
        Request::Edit(request) => edit::edit(root, &request)?,
        Request::Glob(request) => glob::glob(root, &request, channel)?,
        Request::Grep(request) => grep::grep(root, &request, channel)?,
        Request::Watch(request) => {
            watch::watch(root, &request, channel)?;
            return Ok(None);
        }
        Request::Archive(request) => {
            archive::archive(root, &request, channel)?;
            return Ok(None);
        }
        Request::Unpack(request) => unpack::unpack(root, &request, channel)?,
        Request::Guest
        | Request::Attend
        | Request::HoldClock
        | Request::ReleaseClock
        | Request::Bind { .. }
        | Request::Start(_)
        | Request::Follow(_)
        | Request::Feed(_)
        | Request::Signal(_)
        | Request::Cancel(_)
        | Request::Resize(_)
        | Request::Forget(_)
        | Request::Execs
        | Request::Connect(_)
        | Request::WaitForPort(_)
        | Request::Ports
        | Request::Listeners
        | Request::Stop { .. } => {
            return Err(Problem::new(Code::Unsupported, "not a request about files").into());
        }
    };
    Ok(Some(reply))
}
