//! The server's side: starting the resident process, giving orders, finding guests.

use crate::order::{Answer, BYTES_MAX, Failed, Order};
use atoll_protocol::frame::{self, Decoder, Kind};
use atoll_protocol::hello::Hello;
use atoll_protocol::problem::Problem;
use atoll_protocol::request::{Reply, Request};
use atoll_sys::capture::Listeners;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, ipproto, sockopt};
use rustix::process::{Pid, PidfdFlags};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The resident process, which ends with this. One that dies, say for want of memory, is
/// followed by another with the next order; what it has made goes on.
#[derive(Debug)]
pub struct Spawner {
    resident: Mutex<Resident>,
    starts: AtomicU64,
}

/// The resident process of now, and what starts one.
#[derive(Debug)]
struct Resident {
    program: Command,
    held: Option<OwnedFd>,
    /// None while there is none.
    alive: Option<(OwnedFd, Child)>,
}

/// Why there is no guest, as far as is known.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// Nothing was started.
    #[error("the sandbox could not be started ({})", .0.step)]
    Failed(#[source] Failed),
    /// The order could not be given.
    #[error("the resident process could not be asked")]
    Ask(#[source] io::Error),
    /// It was given, and no answer came that can be read.
    #[error("the resident process gave no answer")]
    Lost,
}

/// A guest that listens.
#[derive(Debug)]
pub struct Spawned {
    /// Becomes readable when the guest has ended.
    pub pidfd: OwnedFd,
    /// Its process.
    pub pid: i32,
    /// Microseconds from the order to the clone.
    pub cloned_us: u64,
    /// Microseconds from the order to its listening.
    pub ready_us: u64,
    /// The cookie of its network, if that is captured: for [`listeners`].
    pub network: Option<u64>,
    /// That network had been made ahead.
    pub is_pooled: bool,
}

impl Spawner {
    /// Starts `program`, which must call [`crate::resident::from_standard_input`].
    ///
    /// `held` stays open as long as something is being made, also when this process
    /// is killed: a lock on it says that nothing is.
    ///
    /// # Errors
    ///
    /// The program could not be run.
    pub fn start(program: Command, held: Option<OwnedFd>) -> io::Result<Self> {
        let mut resident = Resident { program, held, alive: None };
        resident.start()?;
        Ok(Self { resident: Mutex::new(resident), starts: AtomicU64::new(1) })
    }

    /// The resident process; None if the last one has ended, and no order came since.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.lock().alive.as_ref().map(|(_, child)| child.id())
    }

    /// How many resident processes there have been: more than one if one has died.
    #[must_use]
    pub fn starts(&self) -> u64 {
        self.starts.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Resident> {
        // Whatever panicked: a process is asked whether it is alive before it is told anything.
        self.resident.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends to the resident process, which is another one if that has died. An order that
    /// was sent is never sent again: it may have been carried out.
    fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut resident = self.lock();
        if resident.is_alive() {
            let sent = resident.send(bytes, fds);
            // Nobody has taken an order if it died since.
            if !sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
                return sent;
            }
        }
        resident.start()?;
        self.starts.fetch_add(1, Ordering::Relaxed);
        resident.send(bytes, fds)
    }

    /// Has a guest started and waits for it to listen.
    ///
    /// # Errors
    ///
    /// [`SpawnError`]; after [`SpawnError::Lost`] there may be one, which
    /// [`find`] finds.
    pub fn spawn(&self, order: &Order) -> Result<Spawned, SpawnError> {
        self.begin(order)?.wait()
    }

    /// Gives the order alone. If what it gives is dropped, the guest ends.
    ///
    /// # Errors
    ///
    /// [`SpawnError::Ask`].
    pub fn begin(&self, order: &Order) -> Result<Spawning, SpawnError> {
        let ask = |error: Errno| SpawnError::Ask(error.into());
        let bytes = serde_json::to_vec(order).map_err(|error| SpawnError::Ask(error.into()))?;
        if bytes.len() > BYTES_MAX {
            let text = format!("an order of {} bytes is longer than {BYTES_MAX}", bytes.len());
            return Err(SpawnError::Ask(io::Error::new(io::ErrorKind::InvalidInput, text)));
        }
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(ask)?;
        let beside = order.beside().map_err(SpawnError::Ask)?;
        let fds: Vec<_> = [Some(&theirs), beside.as_ref()].into_iter().flatten().collect();
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        self.send(&bytes, &fds).map_err(SpawnError::Ask)?;
        Ok(Spawning { answer: ours })
    }
}

/// A guest that is being made.
#[derive(Debug)]
pub struct Spawning {
    answer: OwnedFd,
}

impl Spawning {
    /// Waits for it to listen.
    ///
    /// # Errors
    ///
    /// [`SpawnError::Failed`], [`SpawnError::Lost`].
    pub fn wait(self) -> Result<Spawned, SpawnError> {
        let mut buffer = vec![0; BYTES_MAX];
        let (length, pidfd) = atoll_sys::scm::receive(self.answer.as_fd(), &mut buffer)
            .map_err(|_| SpawnError::Lost)?;
        match (serde_json::from_slice(&buffer[..length]), pidfd) {
            (Ok(Answer::Started { pid, cloned_us, ready_us, network, is_pooled }), Some(pidfd)) => {
                Ok(Spawned { pidfd, pid, cloned_us, ready_us, network, is_pooled })
            }
            (Ok(Answer::Failed(failed)), _) => Err(SpawnError::Failed(failed)),
            (Ok(Answer::Started { .. }) | Err(_), _) => Err(SpawnError::Lost),
        }
    }
}

impl Resident {
    fn is_alive(&mut self) -> bool {
        self.alive.as_mut().is_some_and(|(_, child)| matches!(child.try_wait(), Ok(None)))
    }

    /// Starts one, in the place of one that there was.
    fn start(&mut self) -> io::Result<()> {
        self.end();
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let held = self.held.as_ref().map(OwnedFd::try_clone).transpose()?;
        let held = held.map_or_else(Stdio::null, Stdio::from);
        let child = self.program.stdin(theirs).stdout(held).spawn();
        // The command would keep their end open here, so that it never seemed to be shut.
        self.program.stdin(Stdio::null()).stdout(Stdio::null());
        self.alive = Some((ours, child?));
        Ok(())
    }

    fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let (orders, _) = self.alive.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        atoll_sys::scm::send_all(orders.as_fd(), bytes, fds)
    }

    /// It returns when its orders end; guests stay.
    fn end(&mut self) {
        if let Some((orders, mut child)) = self.alive.take() {
            drop(orders);
            child.wait().ok();
        }
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        self.end();
    }
}

/// Finds the guest that listens at `socket`, whoever started it: its process and a
/// pidfd. None if nobody listens.
///
/// # Errors
///
/// The path cannot be connected to for another reason.
pub fn find(socket: &Path) -> io::Result<Option<(i32, OwnedFd)>> {
    let address = SocketAddrUnix::new(socket)?;
    let kind = SocketType::STREAM;
    // A guest that is frozen accepts nobody, and one day its queue is full.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let stream = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
    match rustix::net::connect(&stream, &address) {
        Ok(()) => {}
        Err(Errno::CONNREFUSED | Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let pid = atoll_sys::socket::peer(stream.as_fd())?;
    let Some(process) = Pid::from_raw(pid) else {
        let text = "the guest is in a pid namespace that this process does not see";
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    };
    let pidfd = match rustix::process::pidfd_open(process, PidfdFlags::empty()) {
        Ok(pidfd) => pidfd,
        Err(Errno::SRCH) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // If it has ended since, its number may be another's: then it listens no more.
    let again = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
    match rustix::net::connect(&again, &address) {
        Ok(()) => Ok(Some((pid, pidfd))),
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Asks the guest at `socket` and does not wait for what it answers.
///
/// # Errors
///
/// Nobody listens there, or the request could not be sent.
pub fn tell(socket: &Path, request: &Request) -> io::Result<()> {
    begin(socket, request).map(|_| ())
}

/// Asks the guest at `socket` for what it answers at once.
///
/// # Errors
///
/// As [`tell`]; `TimedOut` if no answer comes in `patience`; `InvalidData` if what
/// comes is none; the guest's own problem as `Other`.
pub fn ask(socket: &Path, request: &Request, patience: Duration) -> io::Result<Reply> {
    converse(socket, request, patience, |mut stream, space| stream.read(space))
}

/// Asks the guest at `socket` for what its network leads to, which is that of this cookie
/// (see [`Spawned::network`]). Works the same after a start and for a guest that was found.
///
/// What comes is doubted: only sockets of the right kinds, made in that network, are taken.
/// The guest keeps copies, and what a copy is told holds for ours too: one that is hostile can
/// have them block again, or accept before us. Whoever accepts must not keep others waiting
/// then.
///
/// # Errors
///
/// As [`ask`]; `InvalidData` where anything else is handed over.
pub fn listeners(socket: &Path, network: u64, patience: Duration) -> io::Result<Listeners> {
    let mut fds = Vec::new();
    let receive = |stream: &UnixStream, space: &mut [u8]| {
        let (length, more) = atoll_sys::scm::receive_all(stream.as_fd(), space)?;
        fds.extend(more);
        if fds.len() > atoll_sys::scm::DESCRIPTORS_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "too many descriptors"));
        }
        Ok(length)
    };
    let reply = converse(socket, &Request::Listeners, patience, receive);
    let taken = reply.and_then(|reply| take(reply, &fds, network));
    let (tcp, is_complete) = taken.inspect_err(|_| {
        for fd in &fds {
            // Who closes one that lingers waits for its other side.
            sockopt::set_socket_linger(fd, None).ok();
        }
    })?;
    let udp = fds.split_off(tcp);
    Ok(Listeners { tcp: fds, udp, is_complete })
}

/// How many of the sockets listen, and whether they get all TCP; if they are what the guest
/// says.
fn take(reply: Reply, fds: &[OwnedFd], network: u64) -> io::Result<(usize, bool)> {
    let other = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text.to_owned());
    let Reply::Listeners(said) = reply else { return Err(other("another answer")) };
    let (tcp, udp) = (usize::from(said.tcp), usize::from(said.udp));
    if tcp == 0 || udp == 0 || tcp + udp != fds.len() {
        return Err(other("it handed over less or more than it says"));
    }
    let (listening, receiving) = fds.split_at(tcp);
    for socket in fds {
        let is_of_network = atoll_sys::socket::network(socket.as_fd()).ok() == Some(network);
        if !is_of_network {
            return Err(other("it handed over a socket that is of another network"));
        }
    }
    let is_inet = |socket: &OwnedFd| {
        matches!(sockopt::socket_domain(socket), Ok(AddressFamily::INET | AddressFamily::INET6))
    };
    let listens = |socket: &OwnedFd| {
        is_inet(socket)
            && sockopt::socket_type(socket) == Ok(SocketType::STREAM)
            && sockopt::socket_protocol(socket) == Ok(Some(ipproto::TCP))
            && sockopt::socket_acceptconn(socket) == Ok(true)
    };
    let receives = |socket: &OwnedFd| {
        is_inet(socket)
            && sockopt::socket_type(socket) == Ok(SocketType::DGRAM)
            && sockopt::socket_protocol(socket) == Ok(Some(ipproto::UDP))
    };
    if !listening.iter().all(listens) || !receiving.iter().all(receives) {
        return Err(other("it handed over something that does not listen"));
    }
    for socket in fds {
        rustix::io::ioctl_fionbio(socket, true)?;
    }
    Ok((tcp, said.is_complete))
}

fn converse(
    socket: &Path,
    request: &Request,
    patience: Duration,
    mut receive: impl FnMut(&UnixStream, &mut [u8]) -> io::Result<usize>,
) -> io::Result<Reply> {
    let stream = begin(socket, request)?;
    let until = Instant::now() + patience;
    let mut decoder = Decoder::default();
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    loop {
        while let Some(frame) = decoder.next().map_err(invalid)? {
            match frame.kind {
                Kind::Hello | Kind::Heartbeat => {}
                Kind::Reply => return frame.json().map_err(invalid),
                Kind::Problem => {
                    return Err(io::Error::other(frame.json::<Problem>().map_err(invalid)?));
                }
                kind => {
                    let text = format!("a {kind:?} frame in place of an answer");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
            }
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let length = match receive(&stream, decoder.space()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            length => length?,
        };
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        decoder.filled(length);
    }
}

fn begin(socket: &Path, request: &Request) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket)?;
    let mut bytes = Vec::new();
    frame::put_json(&mut bytes, Kind::Hello, &Hello::OURS)?;
    frame::put_json(&mut bytes, Kind::Request, request)?;
    // A frozen guest takes what fits into its buffer.
    stream.set_write_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(&bytes)?;
    Ok(stream)
}
