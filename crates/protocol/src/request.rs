//! What may be asked for, and what is answered.

use crate::exec::{self, Ended, Stream};
use crate::files::{self, Stat};
use crate::octets::Octets;
use crate::ports::{self, Listening};
use crate::problem::Code;
use serde::{Deserialize, Serialize};

/// One operation: the second frame of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Says how the guest is. Answered by [`Reply::Guest`].
    Guest,
    /// Says nothing and is answered by [`Reply::Done`] when the guest ends: a
    /// connection that is held to learn of that.
    Attend,
    /// Stops the clock that execs are timed by, before a freeze. Answered by
    /// [`Reply::Done`].
    HoldClock,
    /// Lets it go on. Answered by [`Reply::Done`].
    ReleaseClock,
    /// Sets variables of every command from here on, beside those that there are. Answered by
    /// [`Reply::Done`].
    Bind {
        /// Names and values.
        environment: Vec<(Octets, Octets)>,
    },
    /// Runs a command.
    Start(exec::Start),
    /// Follows an exec.
    Follow(exec::Follow),
    /// Feeds an exec.
    Feed(exec::Feed),
    /// Sends a signal to an exec.
    Signal(exec::Signal),
    /// Ends an exec.
    Cancel(exec::Cancel),
    /// Sizes an exec's terminal.
    Resize(exec::Resize),
    /// Forgets an exec.
    Forget(exec::Forget),
    /// Lists the execs. Answered by [`Reply::Execs`].
    Execs,
    /// Reads a file.
    Read(files::Read),
    /// Writes a file.
    Write(files::Write),
    /// Lists a directory.
    List(files::List),
    /// Looks at a name.
    Look(files::Look),
    /// Makes a directory.
    MakeDirectory(files::MakeDirectory),
    /// Removes a name.
    Remove(files::Remove),
    /// Moves a name.
    Move(files::Move),
    /// Sets a mode.
    SetMode(files::SetMode),
    /// Replaces text in a file.
    Edit(files::Edit),
    /// Finds names.
    Glob(files::Glob),
    /// Finds lines in files.
    Grep(files::Grep),
    /// Tells what changes.
    Watch(files::Watch),
    /// Reads a directory as an archive.
    Archive(files::Archive),
    /// Unpacks an archive.
    Unpack(files::Unpack),
    /// Connects to a port.
    Connect(ports::Connect),
    /// Waits for a port.
    WaitForPort(ports::Wait),
    /// Lists the ports that something listens on. Answered by [`Reply::Ports`].
    Ports,
    /// Asks for what the sandbox's network leads to, over a unix socket. Answered by
    /// [`Reply::Listeners`], or by a problem `not_found` where it leads nowhere.
    Listeners,
    /// Asks every process to end, kills what has not by then, and ends the guest.
    /// Answered by [`Reply::Done`] just before; not taken back when the connection
    /// ends. Asked again, the shorter time holds.
    Stop {
        /// How long they may take.
        grace_ms: u64,
    },
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// It is done, and there is nothing to tell.
    Done,
    /// How the guest is.
    Guest(Guest),
    /// An exec is being followed.
    Started {
        /// This request started it; else it was there.
        is_new: bool,
        /// As it is now.
        status: exec::Status,
    },
    /// All execs that are remembered, in the order of their start.
    Execs(Vec<exec::Status>),
    /// One name.
    Stat(Stat),
    /// Names below a directory, sorted.
    Entries {
        /// At most as many as were asked for.
        entries: Vec<Stat>,
        /// There are more.
        is_cut: bool,
    },
    /// A file is edited.
    Edited {
        /// The file that is there now.
        stat: Stat,
        /// How often each text was there, in the order of the request.
        replaced: Vec<u32>,
    },
    /// Lines that were found, sorted by path and line.
    Matches {
        /// At most as many as were asked for.
        matches: Vec<files::Match>,
        /// There may be more.
        is_cut: bool,
        /// How many files were searched.
        searched: u64,
        /// How many were not, or not to their end: they are binary, or may not be
        /// read.
        skipped: u64,
    },
    /// An archive is unpacked.
    Unpacked {
        /// Files, directories and links.
        entries: u64,
        /// Bytes of files.
        bytes: u64,
    },
    /// A connection to a port.
    Connected,
    /// Ports that something listens on.
    Ports(Vec<Listening>),
    /// What the sandbox's network leads to.
    Listeners(ports::Listeners),
}

/// How a guest is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guest {
    /// How long it has been there, on the clock that stands still with it.
    pub age_ms: u64,
    /// Execs that run.
    pub running: u32,
    /// Processes inside, its own left out.
    pub processes: u32,
    /// Descriptors that it holds, of how many it may.
    pub descriptors: Use,
    /// Bytes that it keeps of what execs printed, of how many it may.
    pub kept_bytes: Use,
}

/// How much of something is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Use {
    /// Now.
    pub used: u64,
    /// At most.
    pub limit: u64,
}

/// What happens while an operation goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// These bytes of a stream are not kept any more; it goes on at `to`.
    Dropped {
        /// Of which stream.
        stream: Stream,
        /// Offset of the first that is missing.
        from: u64,
        /// Offset of the first that is there again.
        to: u64,
    },
    /// The exec has ended, and this is all of its output.
    Ended(Ended),
    /// A name below a watched directory has changed.
    Changed {
        /// Which, below the directory that is watched.
        path: Octets,
        /// In which way.
        change: files::Change,
        /// It is a directory.
        is_directory: bool,
    },
    /// More changed below a watched directory than could be told: look again.
    Overflowed,
    /// A directory below a watched one cannot be watched.
    Unwatched {
        /// Which.
        path: Octets,
        /// Why.
        code: Code,
    },
    /// A name is not in the archive, or not all of it.
    Left {
        /// Which, below the archive's directory.
        path: Octets,
        /// Why.
        code: Code,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_has_a_default() {
        let json = r#"{"start":{"id":"exe_1","command":{"arguments":["true"]}}}"#;
        let Request::Start(start) = serde_json::from_str(json).unwrap() else { panic!() };
        assert_eq!(start.keep_bytes, exec::KEEP_BYTES_DEFAULT);
        assert_eq!(start.input, exec::Input::Closed);
        assert_eq!(start.on_disconnect, exec::OnDisconnect::GoOn);
        assert_eq!(start.timeout_ms, None);
    }

    #[test]
    fn what_is_said_is_read_as_it_was_meant() {
        let requests = [
            Request::Guest,
            Request::Stop { grace_ms: 5 },
            Request::Connect(ports::Connect { port: 80 }),
            Request::Cancel(exec::Cancel { id: "a".into(), signal: 2, grace_ms: 1 }),
        ];
        for request in requests {
            let json = serde_json::to_string(&request).unwrap();
            assert_eq!(serde_json::from_str::<Request>(&json).unwrap(), request, "{json}");
        }
    }

    #[test]
    fn what_this_version_does_not_know_is_refused() {
        for json in [
            r#"{"connect":{"port":80,"host":"example"}}"#,
            r#"{"connect":{"port":65536}}"#,
            r#"{"fly":{}}"#,
            r#""stop""#,
        ] {
            assert!(serde_json::from_str::<Request>(json).is_err(), "{json}");
        }
    }
}
