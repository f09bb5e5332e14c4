//! A guest of no sandbox: it says of this machine's loopback what a guest says of its own,
//! and does nothing else.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::process::wait_until;
use atoll_protocol::exec::{Ended, Outcome, Printed, Start, Status};
use atoll_protocol::frame::{Decoder, Kind, header, output_header, put_json};
use atoll_protocol::hello::Hello;
use atoll_protocol::ports::Listening;
use atoll_protocol::problem::{Code, Problem};
use atoll_protocol::request::{Event, Reply, Request};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// What a stand-in says of itself.
#[derive(Debug, Clone, Default)]
pub struct StandIn {
    /// The ports that it lists.
    pub ports: Arc<Mutex<Vec<u16>>>,
    /// How many connections to ports were asked for.
    pub connections: Arc<Mutex<usize>>,
    /// Every exec that is asked for runs and prints nothing, for ever, and nothing that is
    /// watched changes. Else a stand-in has neither.
    pub is_silent: bool,
    /// What is to be done is noted here and counts as done: every exec ends at once, and its last
    /// argument is noted; of files, where they come to.
    pub done: Option<Arc<Mutex<Vec<String>>>>,
    /// The last argument of execs that end with 3, having printed that to standard error.
    pub failing: Arc<Mutex<Option<String>>>,
}

impl StandIn {
    /// Listens until the test ends.
    pub fn listen(&self, path: &Path) {
        let listener = UnixListener::bind(path).unwrap();
        let own = self.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let own = own.clone();
                // Whoever asked may be gone, which is as good an end as another.
                thread::spawn(move || own.answer(stream.unwrap()).unwrap_or_default());
            }
        });
    }

    fn answer(&self, mut stream: UnixStream) -> std::io::Result<()> {
        let mut decoder = Decoder::default();
        let Some(request) = until(&mut stream, &mut decoder, Kind::Request)? else {
            return Ok(());
        };
        let request: Request = serde_json::from_slice(&request).unwrap();
        let mut hello = Vec::new();
        put_json(&mut hello, Kind::Hello, &Hello::OURS).unwrap();
        stream.write_all(&hello)?;
        let goes_on = self.is_silent
            && matches!(request, Request::Start(_) | Request::Follow(_) | Request::Watch(_));
        let mut socket = None;
        let is_new = matches!(request, Request::Start(_));
        let reply = match request {
            Request::Connect(connect) => {
                *self.connections.lock().unwrap() += 1;
                socket = connected(connect.port);
                let refused = Problem::new(Code::NotFound, "nothing listens there");
                socket.as_ref().map(|_| Reply::Connected).ok_or(refused)
            }
            Request::WaitForPort(wait) => {
                let until = Instant::now() + Duration::from_millis(wait.timeout_ms);
                let is_over = || listens(wait.port) || Instant::now() > until;
                wait_until("a port that somebody waits for", is_over);
                let late = Problem::new(Code::TimedOut, "nothing listens there yet");
                listens(wait.port).then_some(Reply::Done).ok_or(late)
            }
            Request::Ports => {
                let ports = self.ports.lock().unwrap();
                let ports = ports.iter().map(|&port| Listening { port, is_any_address: false });
                Ok(Reply::Ports(ports.collect()))
            }
            Request::Start(atoll_protocol::exec::Start { ref id, .. })
            | Request::Follow(atoll_protocol::exec::Follow { ref id, .. })
                if goes_on =>
            {
                Ok(Reply::Started { is_new, status: crate::liar::status(id) })
            }
            Request::Watch(_) if goes_on => Ok(Reply::Done),
            Request::Start(ref start) if self.done.is_some() => {
                return self.exec(&mut stream, start);
            }
            Request::Unpack(ref unpack) if self.done.is_some() => {
                if until(&mut stream, &mut decoder, Kind::End)?.is_none() {
                    return Ok(());
                }
                self.note(unpack.path.to_string());
                Ok(Reply::Unpacked { entries: 1, bytes: 1 })
            }
            Request::Execs => Ok(Reply::Execs(Vec::new())),
            Request::Bind { environment } => {
                for (name, value) in environment {
                    self.note(format!("bind {name}={value}"));
                }
                Ok(Reply::Done)
            }
            Request::HoldClock | Request::ReleaseClock | Request::Stop { .. } => Ok(Reply::Done),
            // What is sent is read first: who sends it learns of a fault on its own side.
            Request::Unpack(_) if until(&mut stream, &mut decoder, Kind::End)?.is_none() => {
                return Ok(());
            }
            _ => Err(Problem::new(Code::Unsupported, "a stand-in cannot do this")),
        };
        let mut bytes = Vec::new();
        match reply {
            Ok(reply) => put_json(&mut bytes, Kind::Reply, &reply).unwrap(),
            Err(problem) => put_json(&mut bytes, Kind::Problem, &problem).unwrap(),
        }
        let socket = socket.as_ref().map(|socket| socket.as_fd());
        atoll_sys::scm::send(stream.as_fd(), &bytes[..1], socket)?;
        stream.write_all(&bytes[1..])?;
        if !goes_on {
            return Ok(());
        }
        loop {
            stream.write_all(&header(Kind::Heartbeat, 0))?;
            let soon = rustix::event::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            rustix::event::poll(&mut [], Some(&soon))?;
        }
    }
}

impl StandIn {
    fn note(&self, what: String) {
        if let Some(done) = &self.done {
            done.lock().unwrap().push(what);
        }
    }

    /// An exec that has ended when it has begun.
    fn exec(&self, stream: &mut UnixStream, start: &Start) -> std::io::Result<()> {
        let last = start.command.arguments.last().unwrap().to_string();
        let fails = self.failing.lock().unwrap().as_ref() == Some(&last);
        self.note(last.clone());
        let printed = if fails { last.into_bytes() } else { Vec::new() };
        let stderr = Printed { bytes: printed.len() as u64, dropped_bytes: 0 };
        let ended = Event::Ended(Ended {
            outcome: Outcome::Exited(if fails { 3 } else { 0 }),
            cause: None,
            duration_us: 1,
            cpu_us: 1,
            max_rss_kib: 1,
            fed_bytes: 0,
            stdout: Printed::default(),
            stderr,
        });
        let mut bytes = Vec::new();
        let arguments = start.command.arguments.clone();
        let status = Status { arguments, ..crate::liar::status(&start.id) };
        put_json(&mut bytes, Kind::Reply, &Reply::Started { is_new: true, status }).unwrap();
        if fails {
            bytes.extend(output_header(Kind::Stderr, 0, printed.len()));
            bytes.extend(printed);
        }
        put_json(&mut bytes, Kind::Event, &ended).unwrap();
        stream.write_all(&bytes)
    }
}

/// What the next frame of a kind holds, if one comes: those before it are passed over.
fn until(
    stream: &mut UnixStream,
    decoder: &mut Decoder,
    kind: Kind,
) -> std::io::Result<Option<Vec<u8>>> {
    loop {
        while let Some(frame) = decoder.next().unwrap() {
            if frame.kind == kind {
                return Ok(Some(frame.payload.to_vec()));
            }
        }
        let length = stream.read(decoder.space())?;
        if length == 0 {
            return Ok(None);
        }
        decoder.filled(length);
    }
}

/// Whether something listens, which is not told by being connected to (proc_pid_net(5)).
fn listens(port: u16) -> bool {
    let sockets = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    sockets.contains(&format!(":{port:04X} 00000000:0000 0A"))
}

fn connected(port: u16) -> Option<TcpStream> {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()
}
