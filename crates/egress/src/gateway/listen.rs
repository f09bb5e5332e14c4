//! Connections of a sandbox, as they come.

use super::connection;
use super::refusal::{Refused, Wanted};
use super::sandbox::{CONNECTIONS_MAX, Sandbox};
use crate::control::{Protocol, Told};
use crate::relay::reset;
use rustix::io::Errno;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// How long nothing is accepted when there is no descriptor left.
const BREATH: Duration = Duration::from_millis(50);

/// Serves every connection to a listener, until that does not work any more. Dropping this breaks
/// all of them off.
pub(super) async fn connections(listener: TcpListener, sandbox: Arc<Sandbox>) {
    let mut served = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = served.join_next() => continue,
        };
        match accepted {
            Ok((stream, _)) => match sandbox.connections.clone().try_acquire_owned() {
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

/// Whether a listener will never accept again: somebody has closed it from within.
fn is_dead(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::BADF | Errno::NOTSOCK))
}

/// Whether it was that connection's, and none of the listener's (accept(2), "Error handling").
fn is_about_one(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::CONNABORTED
                | Errno::INTR
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
