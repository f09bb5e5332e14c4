//! A guest without a jail around it, as PID 1 of the pid namespace that it is
//! started in. For tests.
//!
//! `guest SOCKET PATIENCE_MS KEPT_BYTES`

use anyhow::Context as _;
use atoll_guest::message::Failure;
use atoll_guest::serve::{Base, Limits, Server, Walls};
use atoll_protocol::exec::User;
use atoll_sys::process::{SignalSet, set_signal_mask};
use rustix::mount::{MountFlags, mount};
use std::os::unix::net::UnixListener;
use std::time::Duration;

/// None: what a jail keeps out is not this example's subject.
struct NoWalls;

impl Walls for NoWalls {
    fn raise(&mut self, _user: User) -> Result<(), Failure> {
        Ok(())
    }

    fn raise_around_worker(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn has(&self, user: User) -> bool {
        user == User::Workload
    }
}

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let socket = arguments.next().context("a socket is missing")?;
    let patience_ms = arguments.next().context("a patience is missing")?.parse()?;
    let kept_bytes = arguments.next().context("a limit is missing")?.parse()?;
    // Its standard descriptors lead nowhere.
    let panics = std::fs::File::create(format!("{socket}.panics"))?;
    std::panic::set_hook(Box::new(move |panic| {
        use std::io::Write as _;
        writeln!(&panics, "{panic}").ok();
    }));
    // The host's own gives nobody a terminal by this name.
    mount(c"devpts", c"/dev/pts", c"devpts", MountFlags::empty(), Some(c"ptmxmode=0666"))
        .context("cannot mount devpts")?;
    let listener = UnixListener::bind(&socket).context("cannot listen")?;
    set_signal_mask(SignalSet::ALL)?;
    let base = Base {
        environment: [("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())].into(),
        directory: "/".into(),
        root_environment: [].into(),
        sessions: format!("{socket}.sessions").into(),
        root_sessions: format!("{socket}.root-sessions").into(),
        limits: Vec::new(),
        umask: 0o022,
    };
    let patience = Duration::from_millis(patience_ms);
    let limits = Limits { patience, kept_bytes, ..Limits::default() };
    Server::new(listener.into(), base, Box::new(NoWalls), limits)?.run();
    Ok(())
}
