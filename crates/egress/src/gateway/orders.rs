//! Orders, carried out one after the other.

use super::Setup;
use super::outbox::{Letters, outbox};
use super::sandbox::{Outside, Sandbox, Settings};
use super::{listen, names};
use crate::control::{Addition, BYTES_MAX, Order, Rules, Told};
use crate::dial::Route;
use crate::relay::Pipes;
use crate::tls::{Authority, Upstream};
use atoll_sys::accept::Acceptor;
use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, SocketType, ipproto, sockopt};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use zeroize::Zeroize as _;

/// How long after something was used that is told, with all that was used in the meantime.
const COUNTED_AFTER: Duration = Duration::from_secs(1);

/// Sandboxes by their numbers.
type All = Rc<RefCell<HashMap<u64, Running>>>;

/// Serves until the starter is gone.
pub(super) async fn serve(setup: Setup, acceptor: Acceptor) -> io::Result<()> {
    let acceptor = Rc::new(acceptor);
    rustix::io::ioctl_fionbio(&setup.control, true)?;
    #[expect(deprecated, reason = "what is in its place is unsafe, and an OwnedFd keeps its own")]
    let control = Arc::new(AsyncFd::new(setup.control)?);
    let (outbox, letters) = outbox();
    let outside = Arc::new(Outside {
        route: Route::default(),
        pipes: Pipes::default(),
        outbox: outbox.clone(),
        used: Notify::new(),
        tls: Arc::new(Upstream::new(setup.roots)),
    });
    let telling = tokio::task::spawn_local(tell(control.clone(), letters));
    let running = All::default();
    let counting = tokio::task::spawn_local(count(running.clone(), outside.clone()));
    outbox.tell(Told::Ready);
    let mut buffer = vec![0; BYTES_MAX];
    loop {
        let (length, listeners) = match receive(&control, &mut buffer).await {
            Ok((0, _)) => break,
            Ok(received) => received,
            Err(error) if Errno::from_io_error(&error) == Some(Errno::CONNRESET) => break,
            // One that is not whole, and was none of our starter's.
            Err(error) if error.kind() == ErrorKind::InvalidData => continue,
            Err(error) => return Err(error),
        };
        let order = serde_json::from_slice(&buffer[..length]);
        // There may have been secrets in it.
        buffer[..length].zeroize();
        if let Ok(order) = order {
            carry_out(order, listeners, &mut running.borrow_mut(), &outside, &acceptor);
        }
    }
    running.borrow_mut().clear();
    counting.abort();
    telling.abort();
    Ok(())
}

/// Tells what sandboxes have used, a moment after they did.
async fn count(running: All, outside: Arc<Outside>) {
    loop {
        outside.used.notified().await;
        sleep_until(Instant::now() + COUNTED_AFTER).await;
        for found in running.borrow().values() {
            found.sandbox.tell_counts();
        }
    }
}

/// A sandbox that is served as long as this is there.
struct Running {
    sandbox: Arc<Sandbox>,
    _served: JoinSet<()>,
}

fn carry_out(
    order: Order,
    listeners: Vec<OwnedFd>,
    running: &mut HashMap<u64, Running>,
    outside: &Arc<Outside>,
    acceptor: &Rc<Acceptor>,
) {
    match order {
        Order::Resolve(resolver) => outside.route.lookups().set(resolver),
        Order::Reach(via) => outside.route.set_via(via),
        Order::Add(addition) => {
            let sandbox = addition.sandbox;
            let added = match running.contains_key(&sandbox) {
                // Who is served under that number stays as it is.
                true => Err("there is a sandbox of this number already".to_owned()),
                false => add(*addition, listeners, outside, acceptor),
            };
            let told = match added {
                Ok((added, None)) => {
                    running.insert(sandbox, added);
                    Told::Added { sandbox }
                }
                Ok((_, Some(text))) | Err(text) => Told::Failed { sandbox, text },
            };
            outside.outbox.tell(told);
        }
        Order::Change { sandbox, rules } => {
            let told = match running.get(&sandbox) {
                Some(found) => change(&found.sandbox, rules),
                None => not_there(sandbox),
            };
            outside.outbox.tell(told);
        }
        Order::Remove { sandbox } => outside.outbox.tell(remove(sandbox, running)),
        Order::Decide { sandbox, question, decision } => {
            if let Some(found) = running.get(&sandbox) {
                found.sandbox.decide(question, decision);
            }
        }
        Order::Count { sandbox } => {
            let told = match running.get(&sandbox) {
                Some(found) => {
                    let counts = found.sandbox.counts();
                    Told::Counted { sandbox, counts, is_answer: true }
                }
                None => not_there(sandbox),
            };
            outside.outbox.tell(told);
        }
    }
}

/// Serves a sandbox no more, and says the last word about it.
fn remove(sandbox: u64, running: &mut HashMap<u64, Running>) -> Told {
    let counts = running.remove(&sandbox).map(|found| found.sandbox.end());
    Told::Removed { sandbox, counts: counts.unwrap_or_default() }
}

fn not_there(sandbox: u64) -> Told {
    Told::Failed { sandbox, text: "there is no such sandbox here".to_owned() }
}

/// The change is made even where the rules are not understood: nothing is reached then.
fn change(sandbox: &Sandbox, rules: Rules) -> Told {
    let (settings, failed) = Settings::new(rules);
    sandbox.change(settings);
    match failed {
        None => Told::Changed { sandbox: sandbox.id() },
        Some(text) => Told::Failed { sandbox: sandbox.id(), text },
    }
}

/// Begins to serve a sandbox; or says what is wrong with its rules.
fn add(
    addition: Addition,
    mut listeners: Vec<OwnedFd>,
    outside: &Arc<Outside>,
    acceptor: &Rc<Acceptor>,
) -> Result<(Running, Option<String>), String> {
    let Addition { sandbox: id, tcp, rules, stand_ins, counts, authority } = addition;
    if tcp > listeners.len() {
        return Err(format!("{tcp} listeners were announced, {} came", listeners.len()));
    }
    let udp = listeners.split_off(tcp);
    // They come from within, where others hold them too.
    if !listeners.iter().all(is_listener) || !udp.iter().all(is_of_datagrams) {
        return Err("what came in the place of a listener is none".to_owned());
    }
    let (settings, failed) = Settings::new(rules);
    let authority = authority.map(|pem| Authority::from_pem(pem.reveal())).transpose();
    let authority = authority.map_err(|error| format!("its authority cannot be used: {error}"))?;
    let sandbox = Sandbox::new(id, settings, stand_ins, counts, authority, outside.clone());
    let sandbox = Arc::new(sandbox.map_err(|error| error.to_string())?);
    let mut served = JoinSet::new();
    for socket in udp {
        served.spawn_local(names::datagrams(socket, sandbox.clone()));
    }
    for listener in listeners {
        rustix::io::ioctl_fionbio(&listener, true)
            .map_err(|error| format!("a listener cannot be used: {error}"))?;
        served.spawn_local(listen::connections(listener, acceptor.clone(), sandbox.clone()));
    }
    Ok((Running { sandbox, _served: served }, failed))
}

fn is_listener(socket: &OwnedFd) -> bool {
    is_of(socket, SocketType::STREAM, ipproto::TCP)
        && sockopt::socket_acceptconn(socket) == Ok(true)
}

fn is_of_datagrams(socket: &OwnedFd) -> bool {
    is_of(socket, SocketType::DGRAM, ipproto::UDP)
}

/// Asks the kernel alone, and nothing that may be behind a descriptor that is no socket.
fn is_of(socket: &OwnedFd, kind: SocketType, protocol: Protocol) -> bool {
    let family = sockopt::socket_domain(socket);
    matches!(family, Ok(AddressFamily::INET | AddressFamily::INET6))
        && sockopt::socket_type(socket) == Ok(kind)
        && sockopt::socket_protocol(socket) == Ok(Some(protocol))
}

async fn receive(
    control: &AsyncFd<OwnedFd>,
    buffer: &mut [u8],
) -> io::Result<(usize, Vec<OwnedFd>)> {
    loop {
        let mut ready = control.readable().await?;
        let received = ready.try_io(|control| atoll_sys::scm::receive_all(control.as_fd(), buffer));
        if let Ok(received) = received {
            return received;
        }
    }
}

/// Tells everything, one after the other, and waits for who does not listen.
async fn tell(control: Arc<AsyncFd<OwnedFd>>, mut letters: Letters) {
    while let Some(bytes) = letters.next().await {
        loop {
            let Ok(mut ready) = control.writable().await else { return };
            match ready.try_io(|control| atoll_sys::scm::send_all(control.as_fd(), &bytes, &[])) {
                Ok(Ok(())) => break,
                Ok(Err(error)) if is_gone(&error) => return,
                // That message is lost, and not all that come after it.
                Ok(Err(_)) => break,
                Err(_) => {}
            }
        }
    }
}

/// Whether nobody holds the other end any more.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN | Errno::CONNREFUSED)
    )
}
