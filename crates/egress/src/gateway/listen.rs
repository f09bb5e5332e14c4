//! Connections of a sandbox, as they come.

use super::connection;
use super::refusal::{Refused, Wanted};
use super::sandbox::{CONNECTIONS_MAX, Sandbox};
use crate::control::{Protocol, Told};
use crate::relay::reset;
use atoll_sys::accept::Acceptor;
use rustix::io::Errno;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// How long nothing is accepted when there is no descriptor left.
const BREATH: Duration = Duration::from_millis(50);

/// Serves every connection to a listener, until that does not work any more. Dropping this breaks
/// all of them off.
pub(super) async fn connections(listener: OwnedFd, acceptor: Rc<Acceptor>, sandbox: Arc<Sandbox>) {
    #[expect(deprecated, reason = "what is in its place is unsafe, and an OwnedFd keeps its own")]
    let registered = AsyncFd::with_interest(listener, Interest::READABLE);
    let Ok(listener) = registered else {
        return sandbox.tell(Told::Deaf { sandbox: sandbox.id() });
    };
    let mut served = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &acceptor) => accepted,
            Some(_) = served.join_next() => continue,
        };
        match accepted {
            Ok(stream) => match sandbox.connections.clone().try_acquire_owned() {
                Ok(permit) => {
                    let sandbox = sandbox.clone();
                    served.spawn_local(async move {
                        connection::serve(&sandbox, stream).await;
                        drop(permit);
                    });
                }
                Err(_) => turn_away(&sandbox, stream),
            },
            Err(error) if is_dead(&error) => {
                sandbox.tell(Told::Deaf { sandbox: sandbox.id() });
                break;
            }
            Err(error) if is_about_one(&error) => {}
            // Out of descriptors or memory, which others give back.
            Err(_) => sleep_until(Instant::now() + BREATH).await,
        }
    }
    while served.join_next().await.is_some() {}
}

async fn accept(listener: &AsyncFd<OwnedFd>, acceptor: &Acceptor) -> io::Result<TcpStream> {
    loop {
        let mut ready = listener.readable().await?;
        // That it was shut is never forgotten, though it may have been opened again.
        let was_shut = ready.ready().is_read_closed();
        match ready.try_io(|listener| acceptor.accept(listener.as_fd())) {
            Ok(accepted) => return TcpStream::from_std(accepted?.into()),
            Err(_) if was_shut => return Err(Errno::INVAL.into()),
            Err(_) => {}
        }
    }
}

fn turn_away(sandbox: &Sandbox, stream: TcpStream) {
    let address = stream.local_addr().ok();
    reset(stream);
    let Some(address) = address else { return };
    let host = sandbox.host(address.ip()).to_string();
    let refused = Refused::new(
        "too-many-connections",
        format!("{CONNECTIONS_MAX} connections of this sandbox are open"),
        "close some of them",
    );
    let (port, protocol) = (address.port(), Protocol::Tcp);
    sandbox.deny(&refused, &Wanted { host: &host, port, protocol, method: None, path: None });
}

/// Whether a listener is never to be accepted from again: somebody has closed it from within, or
/// made it one that waits, and with it everybody else whom this process serves.
fn is_dead(error: &io::Error) -> bool {
    error.kind() == ErrorKind::Interrupted
        || matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::BADF | Errno::NOTSOCK))
}

/// Whether it was that connection's, and none of the listener's (accept(2), "Error handling").
fn is_about_one(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::CONNABORTED
                | Errno::PERM
                | Errno::PROTO
                | Errno::NETDOWN
                | Errno::NOPROTOOPT
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::NETUNREACH
                | Errno::OPNOTSUPP
        )
    )
}
