//! The floor of everything that relays: accept, connect, and a splice through a pipe of 1 MiB in
//! each direction, each by a thread that waits in the kernel.

use anyhow::{Context as _, Result};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

const PIPE: usize = 1 << 20;
const STACK: usize = 64 << 10;

/// Relays to that port, from one that it prints.
pub(crate) fn run(to: u16) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port")?;
    println!("{}", listener.local_addr()?.port());
    io::stdout().flush()?;
    start(move || {
        for inside in listener.incoming().flatten() {
            start(move || relay(inside, to)).ok();
        }
    })?;
    // It ends with who started it.
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

fn start(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().stack_size(STACK).spawn(work).map(drop)
}

fn relay(inside: TcpStream, to: u16) {
    let Ok(outside) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)) else { return };
    for side in [&inside, &outside] {
        side.set_nodelay(true).ok();
    }
    let (inside, outside) = (Arc::new(inside), Arc::new(outside));
    let back = (Arc::clone(&outside), Arc::clone(&inside));
    start(move || direction(&back.0, &back.1)).ok();
    direction(&inside, &outside);
}

/// To its end, or until either side breaks off.
fn direction(from: &TcpStream, to: &TcpStream) {
    if moved(from, to).is_err() {
        from.shutdown(Shutdown::Both).ok();
    }
    to.shutdown(Shutdown::Write).ok();
}

fn moved(from: &TcpStream, to: &TcpStream) -> rustix::io::Result<()> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setpipe_size(&write, PIPE)?;
    loop {
        let mut left = splice(from, None, &write, None, PIPE, SpliceFlags::MOVE)?;
        if left == 0 {
            return Ok(());
        }
        while left > 0 {
            left -= splice(&read, None, to, None, left, SpliceFlags::MOVE)?;
        }
    }
}
