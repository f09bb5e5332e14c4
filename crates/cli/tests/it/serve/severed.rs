//! What is told of commands when the way to their sandbox is cut, or the sandbox dies.

use super::execs::{post, printed, run};
use super::support::guest_of;
use super::{Served, each};
use atoll_testkit::liar::{aside, give_back, supplant};
use atoll_testkit::process::{marker, processes, wait_until};
use serde_json::{Value, json};
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Far more than anything here takes, and far less than what it must not wait for.
const SOON: Duration = Duration::from_secs(20);

/// What becomes of a connection.
#[derive(Debug, Clone, Copy)]
enum Way {
    Open,
    /// It is cut after so many bytes from the guest.
    CutAfter(u64),
    /// It is cut at once.
    Closed,
}

/// Stands between a server and a guest, until it is dropped.
struct Cutter {
    path: PathBuf,
    way: Arc<Mutex<Way>>,
    open: Arc<Mutex<Vec<UnixStream>>>,
    cuts: Arc<Mutex<usize>>,
}

impl Cutter {
    fn before(path: &Path) -> Self {
        let listener = supplant(path);
        let cutter = Self {
            path: path.to_owned(),
            way: Arc::new(Mutex::new(Way::Open)),
            open: Arc::default(),
            cuts: Arc::default(),
        };
        let (way, open, cuts) = (cutter.way.clone(), cutter.open.clone(), cutter.cuts.clone());
        let guest = aside(path);
        std::thread::spawn(move || {
            for server in listener.incoming() {
                let (server, guest, cuts) = (server.unwrap(), guest.clone(), cuts.clone());
                let most = match *way.lock().unwrap() {
                    Way::Open => u64::MAX,
                    Way::CutAfter(bytes) => bytes,
                    Way::Closed => continue,
                };
                open.lock().unwrap().push(server.try_clone().unwrap());
                std::thread::spawn(move || {
                    // Whoever is cut off makes errors, and that is the purpose.
                    if relay(&server, &guest, most).is_ok_and(|was_cut| was_cut) {
                        *cuts.lock().unwrap() += 1;
                    }
                });
            }
        });
        cutter
    }

    fn set(&self, way: Way) {
        *self.way.lock().unwrap() = way;
    }

    /// Cuts everything, and lets nothing through until it is open again.
    fn close(&self) {
        self.set(Way::Closed);
        for stream in self.open.lock().unwrap().drain(..) {
            stream.shutdown(Shutdown::Both).unwrap_or_default();
        }
    }
}

impl Drop for Cutter {
    fn drop(&mut self) {
        give_back(&self.path);
    }
}

/// Relays both ways, and says whether it came to where it cuts.
fn relay(server: &UnixStream, guest: &Path, most: u64) -> io::Result<bool> {
    let guest = UnixStream::connect(guest)?;
    let (mut from_server, mut to_guest) = (server.try_clone()?, guest.try_clone()?);
    std::thread::spawn(move || {
        io::copy(&mut from_server, &mut to_guest).unwrap_or_default();
        to_guest.shutdown(Shutdown::Both).unwrap_or_default();
    });
    let (mut left, mut buffer) = (most, [0; 4096]);
    while left > 0 {
        let wanted = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let length = (&guest).read(&mut buffer[..wanted])?;
        if length == 0 {
            break;
        }
        (&mut &*server).write_all(&buffer[..length])?;
        left -= length as u64;
    }
    server.shutdown(Shutdown::Both)?;
    guest.shutdown(Shutdown::Both)?;
    Ok(left == 0)
}

/// Standard output as it was told, piece by piece without a gap.
fn output(events: &[super::wire::Event]) -> String {
    let mut text = String::new();
    for event in events.iter().filter(|event| event.name == "output") {
        assert_eq!(event.data["offset"], text.len(), "{event:?}");
        text.push_str(event.data["text"].as_str().unwrap());
    }
    text
}

fn names(events: &[super::wire::Event]) -> Vec<&str> {
    events.iter().map(|event| event.name.as_str()).collect()
}

#[test]
fn a_stream_whose_way_is_cut_goes_on_where_it_was() {
    each(|project| {
        let served = Served::start(project, &[]);
        let made = served.create("web").body;
        let cutter = Cutter::before(&guest_of(project, &made));
        // More than a frame, so that each connection brings something.
        cutter.set(Way::CutAfter(300_000));
        let all: String = (1..=200_000).map(|number| format!("{number}\n")).collect();
        let id = "exe_0000000000000000cafe";
        let command = json!({ "id": id, "shell": "seq 200000; exit 3", "keep_bytes": 4 << 20 });
        let ran = run(&served, &command);
        // Not told where it fails, since it is long.
        assert!(printed(&ran) == all, "{} of {} bytes", printed(&ran).len(), all.len());
        assert_eq!(ran["exec"]["ended"]["exit_code"], 3);
        let cuts = *cutter.cuts.lock().unwrap();
        assert!(cuts >= 3, "cut only {cuts} times");
        let events = served.events(&format!("/v1/sandboxes/web/execs/{id}/events")).rest();
        assert!(output(&events) == all, "{} bytes", output(&events).len());
        assert_eq!(events.last().unwrap().data["ended"]["exit_code"], 3);
        let raw = served.open("GET", &format!("/v1/sandboxes/web/execs/{id}/stdout"), None);
        assert!(raw.bytes().unwrap() == all.as_bytes(), "the raw stream is another one");
    });
}

#[test]
fn what_nobody_can_know_is_lost_and_never_well_and_can_be_asked_for_later() {
    each(|project| {
        let served = Served::start(project, &[]);
        let made = served.create("web").body;
        let cutter = Cutter::before(&guest_of(project, &made));
        let id = "exe_0000000000000000cafe";
        let shell = "echo begun; while ! [ -e go ]; do sleep 0.05; done; echo over; exit 5";
        assert_eq!(post(&served, "execs", &json!({ "id": id, "shell": shell })).status, 201);
        let exec = format!("/v1/sandboxes/web/execs/{id}");
        let mut events = served.events(&format!("{exec}/events"));
        events.until("output");
        let raw = served.open("GET", &format!("{exec}/stdout"), None);
        let began = Instant::now();
        let path = format!("{exec}/result?wait_ms=60000");
        let result = std::thread::scope(|threads| {
            let waiting = threads.spawn(|| served.ask("GET", &path, None));
            // The two streams and this one.
            wait_until("who waits", || cutter.open.lock().unwrap().len() >= 4);
            cutter.close();
            waiting.join().unwrap()
        });
        let rest = events.rest();
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        assert_eq!(names(&rest), ["lost"], "{rest:?}");
        assert_eq!(rest[0].data["took_effect"], "unknown", "{rest:?}");
        assert!(!result.body.to_string().contains("exit_code"), "{result:?}");
        let is_lost = result.body["exec"]["state"] == "lost"
            || result.body["error"]["took_effect"] == "unknown";
        assert!(is_lost, "{result:?}");
        raw.bytes().expect_err("it breaks off, and does not end");
        let asked = served.ask("GET", &exec, None);
        assert!(asked.status == 502 || asked.status == 503, "{asked:?}");
        // It ran all the time, and that is told as soon as somebody can know.
        cutter.set(Way::Open);
        assert_eq!(served.ask("GET", &exec, None).body["state"], "running");
        run(&served, &json!({ "shell": "touch go" }));
        let result = served.ask("GET", &format!("{exec}/result?wait_ms=20000"), None).body;
        assert_eq!(printed(&result), "begun\nover\n");
        assert_eq!(result["exec"]["ended"]["exit_code"], 5);
    });
}

/// The parent of a process.
fn parent(pid: i32) -> i32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
    line.trim().parse().unwrap()
}

/// The process that is 1 inside, by one of those that it started.
fn first_of(pid: i32) -> i32 {
    let inside = |pid: i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap().to_owned();
        line.split_whitespace().last().unwrap().to_owned()
    };
    let mut pid = pid;
    while inside(pid) != "1" {
        pid = parent(pid);
    }
    pid
}

#[test]
fn a_sandbox_that_is_killed_from_outside_ends_its_streams_and_says_why() {
    each(|project| {
        let served = Served::start(project, &[]);
        assert_eq!(served.create("web").status, 201);
        let word = marker();
        let id = "exe_0000000000000000cafe";
        let command =
            json!({ "id": id, "command": ["sh", "-c", "echo begun; sleep 600; :", word] });
        assert_eq!(post(&served, "execs", &command).status, 201);
        let mut events = served.events(&format!("/v1/sandboxes/web/execs/{id}/events"));
        events.until("output");
        let first = first_of(processes(&word)[0]);
        let began = Instant::now();
        let first = rustix::process::Pid::from_raw(first).unwrap();
        rustix::process::kill_process(first, rustix::process::Signal::KILL).unwrap();
        let rest = events.rest();
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        assert_eq!(names(&rest), ["lost"], "{rest:?}");
        assert_eq!(rest[0].data["details"]["state"], "stopped", "{rest:?}");
        let asked = served.ask("GET", "/v1/sandboxes/web", None).body;
        assert_eq!(asked["state"], "stopped");
        let cause: &Value = &asked["cause"];
        assert!(cause.as_str().is_some_and(|cause| !cause.is_empty()), "{asked}");
        // Who goes on wakes it.
        assert_eq!(printed(&run(&served, &json!({ "shell": "echo again" }))), "again\n");
    });
}
