//! What the server asks the resident process for, and what it is told.
//!
//! An order is one datagram with a socket beside it, on which the answer comes,
//! with the guest's pidfd beside it. Where no answer comes, nothing is known, and the
//! guest's socket tells whether there is one.

use atoll_protocol::octets::Octets;
use rustix::fs::MemfdFlags;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

/// Longest order or answer, in bytes.
pub const BYTES_MAX: usize = 128 << 10;

/// A sandbox to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Where the guest is to listen: a path of the host that is not there yet, in a
    /// directory that nothing inside sees.
    pub socket: Octets,
    /// What it sees beside its own directories.
    pub image: Image,
    /// Directory of the host that becomes `/etc`; none where the image's own is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etc: Option<Octets>,
    /// Whom the commands run as.
    pub user: User,
    /// The root inside, if commands may run as that too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<Root>,
    /// Directories of the host that it gets.
    pub binds: Vec<Bind>,
    /// Directories of the host that it may write, with what is written kept apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overlays: Vec<Overlay>,
    /// Directories of the host that others have too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Volume>,
    /// Host name inside.
    pub hostname: String,
    /// The machine's id inside, as in machine-id(5), where its `/etc` leaves names to each sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<String>,
    /// Room for `/tmp`, `/dev/shm` and everything else that is not kept, in bytes.
    pub private_bytes: u64,
    /// Variables of every command.
    pub environment: Vec<(Octets, Octets)>,
    /// Where commands start.
    pub directory: Octets,
    /// Directory of the control group of version 2 in which it is to be from its start; no
    /// other than the server's where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Octets>,
    /// Most open files of a process; as the server has it where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// Most processes and threads of the user that the commands run as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Ports that have listeners where the kernel has no nf_tables, beside some that always
    /// have. The network is not captured where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<Vec<u16>>,
    /// Files with values that nobody else is to see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretFile>,
    /// Whom programs are to trust beside those that the image trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
}

/// A file that nobody but the sandbox is to see. What is in it goes beside the order, which may be
/// shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretFile {
    /// Where inside: below a directory of its own that is not kept, as `/run` is.
    pub at: Octets,
    /// How long it is.
    pub bytes: usize,
    /// What is in it.
    #[serde(skip)]
    pub content: Vec<u8>,
}

impl SecretFile {
    /// One with this in it.
    #[must_use]
    pub fn new(at: Octets, content: Vec<u8>) -> Self {
        Self { at, bytes: content.len(), content }
    }
}

impl fmt::Debug for SecretFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretFile").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Order {
    /// What goes beside the order, if anything does.
    pub(crate) fn beside(&self) -> io::Result<Option<OwnedFd>> {
        if self.secrets.is_empty() {
            return Ok(None);
        }
        let memory = rustix::fs::memfd_create("atoll", MemfdFlags::CLOEXEC)?;
        let mut file = File::from(memory);
        for secret in &self.secrets {
            file.write_all(&secret.content)?;
        }
        Ok(Some(file.into()))
    }

    /// Takes what came beside it.
    pub(crate) fn take_beside(&mut self, beside: Option<OwnedFd>) -> io::Result<()> {
        if self.secrets.is_empty() {
            return Ok(());
        }
        let file = File::from(beside.ok_or(io::ErrorKind::InvalidData)?);
        let mut at = 0;
        for secret in &mut self.secrets {
            secret.content = vec![0; secret.bytes];
            file.read_exact_at(&mut secret.content, at)?;
            at += secret.bytes as u64;
        }
        Ok(())
    }
}

/// Authorities that programs trust.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trust {
    /// The certificate of the sandbox's own, in PEM.
    pub certificate: String,
    /// A file of the host with certificates of others, in place of the image's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roots: Option<Octets>,
}

/// The root file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Image {
    /// What is installed on this machine.
    Host,
    /// The one in this directory of the host, read-only.
    Directory(Octets),
    /// The one in a directory of the host, with what is written to it kept beside.
    Writable(Layers),
}

/// The layers of a directory that can be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layers {
    /// The directories below, which stay as they are: the lowest first, and at least one.
    pub lowers: Vec<Lower>,
    /// The one that takes what is written: it belongs to the sandbox's root, or to its user
    /// if there is none.
    pub upper: Octets,
    /// An empty one on the same file system, which has been empty since the last start; in the
    /// directory that `upper` is in where root mounts it.
    pub work: Octets,
}

/// A directory below.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lower {
    /// Which: a real path.
    pub path: Octets,
    /// Whose its files are, for a server of root's; those of others are all its own.
    pub owners: Owners,
}

/// Whose the files of a layer are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owners {
    /// The sandbox's, as those of the layer that takes what is written.
    Own,
    /// Those whose numbers are on the disk, inside: an image's.
    Inside,
    /// Another sandbox's: its ids on the host are those "inside", and this one's those "outside".
    Moved(Ids),
    /// An account's of the host, which is the sandbox's user to all who see them; those of everybody
    /// else are nobody's.
    Account {
        /// Uid of the files.
        uid: u32,
        /// Gid of the files.
        gid: u32,
        /// Uid on the host of who has them.
        outside_uid: u32,
        /// Gid on the host of who has them.
        outside_gid: u32,
    },
}

/// One user inside, and who that is outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// Uid inside.
    pub inside_uid: u32,
    /// Gid inside.
    pub inside_gid: u32,
    /// Uid on the host: the server's own, unless that is root.
    pub outside_uid: u32,
    /// Gid on the host.
    pub outside_gid: u32,
}

/// The root inside, which is nobody on the host either.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Root {
    /// All ids inside but the user's own; uid and gid 0 are among them.
    pub ids: Vec<Ids>,
    /// Variables of its commands that differ from the user's.
    pub environment: Vec<(Octets, Octets)>,
}

/// Users and groups with consecutive numbers, inside and on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ids {
    /// The first one inside.
    pub inside: u32,
    /// Who that is on the host.
    pub outside: u32,
    /// How many.
    pub count: u32,
}

/// A directory of the host at a place inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bind {
    /// Which: a real path, without symbolic links.
    pub source: Octets,
    /// Where inside.
    pub at: Octets,
    /// It can be written.
    pub is_writable: bool,
}

/// A directory of the host that is nobody's own, at a place inside that is made if need be, and
/// is nowhere behind a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Which: a real path, without symbolic links.
    pub source: Octets,
    /// Where inside.
    pub at: Octets,
    /// Its device and inode, where it has to be this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<(u64, u64)>,
    /// It can be written.
    pub is_writable: bool,
    /// Whose its files are, for a server of root's; those of others are all its own.
    pub owners: Owners,
}

/// Directories of the host, one over the other, at a place inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overlay {
    /// What is in it.
    pub layers: Layers,
    /// Where inside.
    pub at: Octets,
}

/// The answer to an [`Order`]; the guest's pidfd comes along with `Started`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The guest listens.
    Started {
        /// Its process, as the resident process numbers it.
        pid: i32,
        /// Microseconds from the order to the clone, and to the guest's listening.
        cloned_us: u64,
        /// See `cloned_us`.
        ready_us: u64,
        /// The cookie of the network that is captured: the guest's listeners are of this one.
        network: Option<u64>,
        /// That network had been made ahead.
        is_pooled: bool,
    },
    /// Nothing was started, and nothing is left of it.
    Failed(Failed),
}

/// Why nothing was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
pub struct Failed {
    /// The step that failed; a stable name.
    pub step: String,
    /// What happened, in words.
    pub text: String,
    /// The kernel's error number, or 0.
    pub errno: i32,
}

/// The step of a [`Failed`] that says that a volume cannot be where it is to be, with a text for
/// whoever chose the place.
pub const VOLUME_STEP: &str = "volume";

impl Failed {
    /// An error with its causes on one line.
    pub(crate) fn new(step: &str, error: &dyn std::error::Error, errno: i32) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text += &format!(": {error}");
            cause = error.source();
        }
        Self { step: step.to_owned(), text, errno }
    }

    pub(crate) fn io(step: &str, error: &std::io::Error) -> Self {
        Self::new(step, error, error.raw_os_error().unwrap_or(0))
    }
}
