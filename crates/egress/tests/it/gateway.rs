//! The gateway as a process, against who is not to be trusted with a listener, and against a
//! starter in disorder.

use atoll_egress::control::{
    Addition, Counts, Decision, LayerText, Order, RuleText, Rules, Starter, Told,
};
use atoll_egress::gateway::{self, Setup};
use atoll_egress::policy::Action;
use atoll_egress::stand_in::Kept;
use rustix::net::Shutdown;
use std::io::{self, ErrorKind, Read as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longer than anything takes, and less than a gateway that stands still.
pub(crate) const BOUND: Duration = Duration::from_secs(30);

pub(crate) struct Gateway {
    starter: Starter,
    thread: JoinHandle<io::Result<()>>,
}

impl Gateway {
    pub(crate) fn start() -> Self {
        let (starter, control) = Starter::pair().unwrap();
        let setup = Setup { control, roots: Vec::new() };
        let thread = std::thread::spawn(|| gateway::run(setup, || Ok(())));
        let bound = rustix::net::sockopt::Timeout::Recv;
        rustix::net::sockopt::set_socket_timeout(&starter, bound, Some(BOUND)).unwrap();
        let gateway = Self { starter, thread };
        assert_eq!(gateway.hear(), Told::Ready);
        gateway
    }

    /// What it tells next, beside what was used.
    pub(crate) fn hear(&self) -> Told {
        loop {
            match self.starter.hear().unwrap() {
                Told::Counted { is_answer: false, .. } => {}
                told => return told,
            }
        }
    }

    /// What a sandbox has used, which is told by itself.
    pub(crate) fn counted(&self, whose: u64, is_it: impl Fn(Counts) -> bool) -> Counts {
        loop {
            match self.starter.hear().unwrap() {
                Told::Counted { sandbox, counts, is_answer: false }
                    if sandbox == whose && is_it(counts) =>
                {
                    return counts;
                }
                _ => {}
            }
        }
    }

    /// Has a sandbox served no more; what is told of it from then on until the last word, and the
    /// counts in that.
    pub(crate) fn remove(&self, whose: u64) -> (Vec<Told>, Counts) {
        self.order(&Order::Remove { sandbox: whose });
        let mut before = Vec::new();
        loop {
            match self.starter.hear().unwrap() {
                Told::Removed { sandbox, counts } if sandbox == whose => return (before, counts),
                told => before.push(told),
            }
        }
    }

    pub(crate) fn order(&self, order: &Order) {
        self.starter.order(order, &[]).unwrap();
    }

    pub(crate) fn decide(&self, sandbox: u64, question: u64, decision: Decision) {
        self.order(&Order::Decide { sandbox, question, decision });
    }

    fn add(&self, sandbox: u64, tcp: &[BorrowedFd<'_>], udp: &[BorrowedFd<'_>]) -> Told {
        self.add_with(sandbox, rules(&["*"]), Kept::empty("11.0.0.0/15").unwrap(), tcp, udp)
    }

    pub(crate) fn add_with(
        &self,
        sandbox: u64,
        rules: Rules,
        stand_ins: Kept,
        tcp: &[BorrowedFd<'_>],
        udp: &[BorrowedFd<'_>],
    ) -> Told {
        self.add_counted(sandbox, (rules, stand_ins, Counts::default()), tcp, udp)
    }

    /// The same for one that has used something before.
    pub(crate) fn add_counted(
        &self,
        sandbox: u64,
        (rules, stand_ins, counts): (Rules, Kept, Counts),
        tcp: &[BorrowedFd<'_>],
        udp: &[BorrowedFd<'_>],
    ) -> Told {
        let addition =
            Addition { sandbox, tcp: tcp.len(), rules, stand_ins, counts, authority: None };
        self.starter.order(&Order::Add(Box::new(addition)), &[tcp, udp].concat()).unwrap();
        self.hear()
    }

    /// A sandbox with a listener that we hold as well, as those inside do.
    pub(crate) fn sandbox(&self, sandbox: u64) -> TcpListener {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert_eq!(self.add(sandbox, &[listener.as_fd()], &[]), Told::Added { sandbox });
        assert_is_served(&listener);
        listener
    }

    /// Ends it, which it does by itself when nobody is there.
    pub(crate) fn end(self) {
        drop(self.starter);
        self.thread.join().unwrap().unwrap();
    }
}

fn rules(allowed: &[&str]) -> Rules {
    let rule = |text: &&str| RuleText { text: (*text).to_owned(), action: Action::Allow };
    let layer = LayerText { rules: allowed.iter().map(rule).collect(), only_narrows: false };
    Rules {
        layers: vec![layer],
        explain: true,
        ipv6: true,
        budgets: atoll_egress::control::Budgets::default(),
        secrets: Vec::new(),
        help: atoll_egress::control::Help::Run,
    }
}

/// Connections to loopback are somebody's who found the listener, and are reset at once.
fn is_served(listener: &TcpListener) -> bool {
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.set_read_timeout(Some(BOUND)).unwrap();
    matches!(stream.read(&mut [0]), Err(error) if error.kind() == ErrorKind::ConnectionReset)
}

pub(crate) fn assert_is_served(listener: &TcpListener) {
    assert!(is_served(listener), "nobody is served there");
}

#[test]
fn a_listener_that_is_made_to_wait_holds_up_nobody_else() {
    let gateway = Gateway::start();
    let (malicious, other) = (gateway.sandbox(1), gateway.sandbox(2));
    malicious.set_nonblocking(false).unwrap();
    // The first is accepted, and the next one is waited for where that is possible.
    let _client = TcpStream::connect(malicious.local_addr().unwrap()).unwrap();
    assert_is_served(&other);
    assert_eq!(gateway.hear(), Told::Deaf { sandbox: 1 });
    assert_is_served(&other);
    gateway.end();
}

#[test]
fn listeners_that_are_shut_are_given_up() {
    let gateway = Gateway::start();
    let (malicious, other) = (gateway.sandbox(1), gateway.sandbox(2));
    rustix::net::shutdown(&malicious, Shutdown::Both).unwrap();
    assert_eq!(gateway.hear(), Told::Deaf { sandbox: 1 });
    let names = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    assert_eq!(gateway.add(3, &[], &[names.as_fd()]), Told::Added { sandbox: 3 });
    // It says that it is not connected, and is shut nevertheless.
    rustix::net::shutdown(&names, Shutdown::Both).ok();
    assert_eq!(gateway.hear(), Told::Deaf { sandbox: 3 });
    assert_is_served(&other);
    gateway.end();
}

#[test]
fn a_socket_of_names_that_waits_holds_up_nobody() {
    let gateway = Gateway::start();
    let other = gateway.sandbox(1);
    let names = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    assert_eq!(gateway.add(2, &[], &[names.as_fd()]), Told::Added { sandbox: 2 });
    names.set_nonblocking(false).unwrap();
    // Ready once, and empty when it is read again.
    let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    client.send_to(b"no question", names.local_addr().unwrap()).unwrap();
    assert_is_served(&other);
    gateway.end();
}

#[test]
fn what_is_no_listener_is_refused() {
    let gateway = Gateway::start();
    let other = gateway.sandbox(1);
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let (pipe, _write) = io::pipe().unwrap();
    let (unix, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let connected = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let wrong = [file.as_fd(), pipe.as_fd(), unix.as_fd()];
    let for_tcp = [&wrong[..], &[udp.as_fd(), connected.as_fd()]].concat();
    let for_udp = [&wrong[..], &[listener.as_fd(), connected.as_fd()]].concat();
    let is_refused = |told: &Told| matches!(told, Told::Failed { sandbox: 2, .. });
    for socket in for_tcp {
        let told = gateway.add(2, &[listener.as_fd(), socket], &[udp.as_fd()]);
        assert!(is_refused(&told), "{told:?}");
    }
    for socket in for_udp {
        let told = gateway.add(2, &[listener.as_fd()], &[udp.as_fd(), socket]);
        assert!(is_refused(&told), "{told:?}");
    }
    // The control: with the right ones it is served.
    let told = gateway.add(2, &[listener.as_fd()], &[udp.as_fd()]);
    assert_eq!(told, Told::Added { sandbox: 2 });
    assert_is_served(&listener);
    // A number is one sandbox's alone.
    let again = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    assert!(is_refused(&gateway.add(2, &[again.as_fd()], &[])));
    assert_is_served(&listener);
    assert_is_served(&other);
    gateway.end();
}

#[test]
fn orders_that_are_none_do_no_harm() {
    let gateway = Gateway::start();
    let served = gateway.sandbox(1);
    let (pipe, _write) = io::pipe().unwrap();
    let deep = "[".repeat(100_000);
    let whole = serde_json::to_string(&Order::Change { sandbox: 1, rules: rules(&["*"]) }).unwrap();
    let texts = (0..whole.len()).map(|length| whole[..length].to_owned());
    let texts = texts.filter(|text| !text.is_empty()).chain([deep, "{}".to_owned()]);
    for text in texts {
        let fds = [pipe.as_fd(); 3];
        atoll_sys::scm::send_all(gateway.starter.as_fd(), text.as_bytes(), &fds).unwrap();
    }
    let unknown = |sandbox, question| Order::Decide { sandbox, question, decision: Decision::Once };
    for order in [unknown(1, 7), unknown(9, 1), Order::Remove { sandbox: 9 }] {
        gateway.starter.order(&order, &[]).unwrap();
    }
    // The removal is answered too, by the last word about one that was never there.
    assert_eq!(gateway.hear(), Told::Removed { sandbox: 9, counts: Counts::default() });
    gateway.starter.order(&Order::Change { sandbox: 9, rules: rules(&[]) }, &[]).unwrap();
    assert!(matches!(gateway.hear(), Told::Failed { sandbox: 9, .. }));
    // Rules that are not understood: it is said, and nothing is reached.
    gateway.starter.order(&Order::Change { sandbox: 1, rules: rules(&["ftp://x"]) }, &[]).unwrap();
    assert!(matches!(gateway.hear(), Told::Failed { sandbox: 1, .. }));
    gateway.starter.order(&Order::Change { sandbox: 1, rules: rules(&["*"]) }, &[]).unwrap();
    assert_eq!(gateway.hear(), Told::Changed { sandbox: 1 });
    assert_is_served(&served);
    gateway.end();
}

#[test]
fn a_sandbox_that_is_removed_is_not_served_and_holds_nothing() {
    let gateway = Gateway::start();
    let other = gateway.sandbox(1);
    let listener = gateway.sandbox(2);
    let address: SocketAddr = listener.local_addr().unwrap();
    gateway.starter.order(&Order::Remove { sandbox: 2 }, &[]).unwrap();
    gateway.starter.order(&Order::Count { sandbox: 2 }, &[]).unwrap();
    assert!(matches!(gateway.hear(), Told::Removed { sandbox: 2, .. }));
    assert!(matches!(gateway.hear(), Told::Failed { sandbox: 2, .. }));
    drop(listener);
    // The gateway's was the last one.
    atoll_testkit::process::wait_until("nobody listens", || TcpStream::connect(address).is_err());
    assert_is_served(&other);
    gateway.end();
}
