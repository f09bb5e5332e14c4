//! The gateway with a sandbox that wears it out, and with answers and rules that come while
//! connections are open.
//!
//! What a sandbox connects to is an address of the machine's own, which stands for a name. What is
//! outside is a proxy of the test's.

use super::gateway::{BOUND, Gateway, assert_is_served};
use atoll_egress::control::{Budgets, Decision, LayerText, Order, RuleText, Rules, Told, Via};
use atoll_egress::policy::Action;
use atoll_egress::stand_in::Kept;
use atoll_testkit::process::wait_until;
use atoll_testkit::skip::skip;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

/// An address of this machine's that is not loopback. Nothing is sent for it.
fn own() -> Option<Ipv4Addr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let found = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
    match found.map(|address| address.ip()) {
        Ok(IpAddr::V4(address)) if !address.is_loopback() => Some(address),
        _ => {
            skip("gateway-address", "the machine has no address but loopback");
            None
        }
    }
}

/// The name that an address stands for: it is the last of as many as make it so.
fn stand_ins(address: Ipv4Addr) -> Kept {
    let [a, b, c, place] = address.octets();
    let mut kept = Kept::empty(&format!("{a}.{b}.{c}.0/24")).unwrap();
    kept.names.extend((1..place).map(|n| format!("n{n}.test").parse().unwrap()));
    kept.names.push("here.test".parse().unwrap());
    kept
}

/// A host that gives everything back, behind a proxy. Counts the connections to it.
fn outside(gateway: &Gateway) -> Arc<AtomicUsize> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let via = Via::Http { host: "127.0.0.1".to_owned(), port, login: None };
    gateway.order(&Order::Reach(via));
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::Relaxed);
            thread::spawn(move || -> Option<()> {
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") {
                    stream.read_exact(&mut byte).ok()?;
                    head.push(byte[0]);
                }
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
                let mut piece = [0; 4096];
                loop {
                    let length = stream.read(&mut piece).ok().filter(|length| *length > 0)?;
                    stream.write_all(&piece[..length]).ok()?;
                }
            });
        }
    });
    count
}

fn rules(form: &str, listener: &TcpListener, action: Action) -> Rules {
    let port = listener.local_addr().unwrap().port();
    let text = form.replace("HERE", &format!("here.test:{port}"));
    let layer = LayerText { rules: vec![RuleText { text, action }], only_narrows: false };
    let budgets = Budgets::default();
    Rules {
        layers: vec![layer],
        explain: true,
        ipv6: true,
        budgets,
        secrets: Vec::new(),
        help: atoll_egress::control::Help::Run,
    }
}

fn sandbox(gateway: &Gateway, number: u64, form: &str, action: Action) -> TcpListener {
    let address = own().unwrap();
    let listener = TcpListener::bind((address, 0)).unwrap();
    let rules = rules(form, &listener, action);
    let told = gateway.add_with(number, rules, stand_ins(address), &[listener.as_fd()], &[]);
    assert_eq!(told, Told::Added { sandbox: number });
    listener
}

fn connect(listener: &TcpListener) -> TcpStream {
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.set_read_timeout(Some(BOUND)).unwrap();
    stream
}

/// Whether what is said comes back.
fn echoes(stream: &mut TcpStream) -> bool {
    let mut got = [0; 5];
    stream.write_all(b"hello").is_ok() && stream.read_exact(&mut got).is_ok() && &got == b"hello"
}

fn is_reset(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0]), Err(error) if error.kind() == ErrorKind::ConnectionReset)
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

const FLOOD: usize = 10_000;

/// One connection of many, each in another way.
fn malice(number: usize, listener: &TcpListener) -> Option<TcpStream> {
    let mut stream = connect(listener);
    let huge = [b"GET / HTTP/1.1\r\nx: ", "a".repeat(100_000).as_bytes()].concat();
    let says: &[u8] = match number % 6 {
        // Nothing.
        0 => b"",
        // TLS and HTTP that do not go on.
        1 => b"\x16\x03\x01\x02\x00\x01",
        2 => b"GET / HT",
        3 => &huge,
        // Requests without end.
        4 => b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        _ => {
            rustix::net::sockopt::set_socket_linger(&stream, Some(std::time::Duration::ZERO)).ok();
            return None;
        }
    };
    stream.set_nonblocking(true).ok();
    stream.write_all(says).ok();
    if number % 12 == 4 {
        stream.shutdown(std::net::Shutdown::Write).ok();
    }
    Some(stream)
}

#[test]
fn who_has_ten_thousand_connections_takes_none_of_anybody_else() {
    if own().is_none() {
        return;
    }
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files }).unwrap();
    let gateway = Gateway::start();
    outside(&gateway);
    let attacker = sandbox(&gateway, 1, "HERE", Action::Allow);
    let other = sandbox(&gateway, 2, "tcp://HERE", Action::Allow);
    assert!(echoes(&mut connect(&other)));
    let before = descriptors();
    let is_over = Arc::new(AtomicBool::new(false));
    let flood = {
        let (attacker, is_over) = (attacker.try_clone().unwrap(), Arc::clone(&is_over));
        thread::spawn(move || {
            let open: Vec<_> = (0..FLOOD).filter_map(|n| malice(n, &attacker)).collect();
            is_over.store(true, Ordering::Relaxed);
            open
        })
    };
    let mut served = 0;
    while !is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        assert!(echoes(&mut connect(&other)), "the other sandbox is not served");
        assert!(begun.elapsed() < BOUND);
        served += 1;
    }
    let open = flood.join().unwrap();
    assert!(served > 0 && echoes(&mut connect(&other)));
    // There are no more than a sandbox may have, beside our own.
    wait_until("the others are turned away", || descriptors() < before + open.len() + 1100);
    drop(open);
    wait_until("everything is given back", || descriptors() <= before + 8);
    assert!(echoes(&mut connect(&attacker)) || is_reset(&mut connect(&attacker)));
    gateway.end();
}

#[test]
fn what_is_used_is_told_by_itself_and_counted_on_by_the_next_gateway() {
    let Some(address) = own() else { return };
    let gateway = Gateway::start();
    outside(&gateway);
    let listener = sandbox(&gateway, 1, "tcp://HERE", Action::Allow);
    let mut open = connect(&listener);
    assert!(echoes(&mut open));
    let told = gateway.counted(1, |counts| counts.received_bytes == 5);
    assert_eq!((told.sent_bytes, told.connections, told.requests), (5, 1, 0));
    // What was used since is told with the end.
    assert!(echoes(&mut open));
    let (before, last) = gateway.remove(1);
    assert_eq!((last.sent_bytes, last.received_bytes, last.connections), (10, 10, 1));
    // It is a word of its own, and nothing is told of the sandbox behind it.
    let counted = |told: &Told| matches!(told, Told::Counted { counts, .. } if *counts == last);
    assert!(!before.iter().any(counted), "{before:?}");
    assert!(is_reset(&mut open));
    gateway.order(&Order::Count { sandbox: 1 });
    assert!(matches!(gateway.hear(), Told::Failed { sandbox: 1, .. }));
    gateway.end();

    // Another gateway goes on from there, with the budgets as well.
    let gateway = Gateway::start();
    outside(&gateway);
    let listener = TcpListener::bind((address, 0)).unwrap();
    let mut rules = rules("tcp://HERE", &listener, Action::Allow);
    rules.budgets.requests_max = Some(2);
    let with = (rules, stand_ins(address), last);
    assert_eq!(gateway.add_counted(1, with, &[listener.as_fd()], &[]), Told::Added { sandbox: 1 });
    assert!(echoes(&mut connect(&listener)));
    let told = gateway.counted(1, |counts| counts.received_bytes == 15);
    assert_eq!((told.sent_bytes, told.connections, told.denials), (15, 2, 0));
    let mut beyond = connect(&listener);
    beyond.write_all(b"hello").unwrap();
    assert!(is_reset(&mut beyond));
    assert_eq!(gateway.counted(1, |counts| counts.denials > 0).connections, 2);
    gateway.end();
}

#[test]
fn an_approval_is_asked_for_once_and_holds_for_who_tries_again() {
    if own().is_none() {
        return;
    }
    let gateway = Gateway::start();
    let reached = outside(&gateway);
    let listener = sandbox(&gateway, 1, "tcp://HERE", Action::Ask);
    let mut six: Vec<TcpStream> = (0..6).map(|_| connect(&listener)).collect();
    six.iter_mut().for_each(|stream| stream.write_all(b"\0").unwrap());
    let Told::Question { question, .. } = gateway.hear() else { panic!("nobody is asked") };
    // Nobody answers in time.
    assert!(six.iter_mut().all(is_reset));
    let Told::Denied { denial, .. } = gateway.hear() else { panic!("it is not told") };
    assert_eq!(denial.code, "approval-pending");
    assert_eq!(reached.load(Ordering::Relaxed), 0);
    gateway.decide(1, question, Decision::Once);
    assert!(echoes(&mut connect(&listener)));
    assert!(matches!(gateway.hear(), Told::Reached { .. }));
    // It was for once, and the next one is asked about as the first was.
    let mut again = connect(&listener);
    again.write_all(b"\0").unwrap();
    let Told::Question { question: next, .. } = gateway.hear() else { panic!("nobody is asked") };
    assert_ne!(next, question);
    gateway.decide(1, question, Decision::Once);
    gateway.decide(1, next, Decision::Deny { reason: Some("not on a Sunday".to_owned()) });
    assert!(is_reset(&mut again));
    let Told::Denied { denial, .. } = gateway.hear() else { panic!("it is not told") };
    assert_eq!(denial.code, "approval-denied");
    assert!(denial.message.contains("not on a Sunday"), "{denial:?}");
    gateway.end();
}

#[test]
fn rules_that_change_hold_for_connections_that_are_open() {
    if own().is_none() {
        return;
    }
    let gateway = Gateway::start();
    outside(&gateway);
    let listener = sandbox(&gateway, 1, "tcp://HERE", Action::Allow);
    let change = |form: &str, is_understood: bool| {
        let rules = rules(form, &listener, Action::Allow);
        gateway.order(&Order::Change { sandbox: 1, rules });
        loop {
            match gateway.hear() {
                Told::Reached { .. } | Told::Denied { .. } => {}
                Told::Changed { .. } if is_understood => break,
                Told::Failed { .. } if !is_understood => break,
                told => panic!("{told:?}"),
            }
        }
    };
    // To TLS or HTTP alone; to somewhere else; to what is no rule at all.
    for (form, is_understood) in [("HERE", true), ("tcp://a.test:1", true), ("ftp://x", false)] {
        let mut open = connect(&listener);
        assert!(echoes(&mut open));
        // One that stays as it is.
        change("tcp://HERE", true);
        assert!(echoes(&mut open));
        change(form, is_understood);
        assert!(is_reset(&mut open), "{form}");
        let mut next = connect(&listener);
        // Perhaps before it has said anything.
        assert!(next.write_all(b"\0").is_err() || is_reset(&mut next), "{form}");
        change("tcp://HERE", true);
    }
    gateway.end();
}

#[test]
fn what_waits_for_an_approval_is_judged_by_the_rules_of_then() {
    if own().is_none() {
        return;
    }
    let gateway = Gateway::start();
    let reached = outside(&gateway);
    let listener = sandbox(&gateway, 1, "http://HERE", Action::Ask);
    let port = listener.local_addr().unwrap().port();
    let mut held = connect(&listener);
    let head = format!("GET /x HTTP/1.1\r\nHost: here.test:{port}\r\n\r\n");
    held.write_all(head.as_bytes()).unwrap();
    let Told::Question { question, .. } = gateway.hear() else { panic!("nobody is asked") };
    let rules = rules("http://POST@HERE", &listener, Action::Allow);
    gateway.order(&Order::Change { sandbox: 1, rules });
    assert_eq!(gateway.hear(), Told::Changed { sandbox: 1 });
    gateway.decide(1, question, Decision::Allow { seconds: None });
    let mut answer = [0; 12];
    held.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 403");
    assert_eq!(reached.load(Ordering::Relaxed), 0);
    gateway.end();
}

#[test]
fn who_is_removed_while_somebody_is_asked_is_gone() {
    if own().is_none() {
        return;
    }
    let gateway = Gateway::start();
    let reached = outside(&gateway);
    let other = gateway.sandbox(2);
    let listener = sandbox(&gateway, 1, "tcp://HERE", Action::Ask);
    let mut waits = connect(&listener);
    waits.write_all(b"\0").unwrap();
    let Told::Question { question, .. } = gateway.hear() else { panic!("nobody is asked") };
    gateway.order(&Order::Remove { sandbox: 1 });
    gateway.decide(1, question, Decision::Once);
    assert!(!matches!(waits.read(&mut [0]), Ok(1..)), "it was served");
    assert_eq!(reached.load(Ordering::Relaxed), 0);
    assert_is_served(&other);
    gateway.end();
}
