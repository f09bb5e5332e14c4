//! The two conversations with the kernel that make a network lead to the listeners. They
//! are the same for every sandbox, so they are constants.

use super::bytes::{ACK, APPEND, Bytes, CREATE};
use super::{OWN_V4, OWN_V6, PORT};

/// The loopback interface has this number in every new network namespace.
const LO: u32 = 1;

/// Numbers of the messages of [`ROUTES`] that a kernel without IPv6 refuses.
pub(super) const OF_IPV6: std::ops::RangeInclusive<u8> = 4..=5;

/// Loopback up, addresses of its own, and every address there is routed to loopback.
///
/// Source: rtnetlink(7).
pub(super) static ROUTES: Bytes<512> = routes();

/// Table, chains and rules, in one transaction; the last rule alone is acknowledged.
///
/// ```text
/// table inet atoll
///   chain capture { filter, prerouting, -150 }
///     ip daddr 127.0.0.0/8 accept; ip daddr OWN accept; ip6 daddr ::1 accept; ip6 daddr OWN accept
///     meta l4proto tcp tproxy to :15001 accept
///   chain out { filter, output, 0 }
///     oif != lo accept; (the same four); meta l4proto tcp accept; udp dport 53 accept
///     reject with icmpx admin-prohibited
///   chain inp { filter, input, 0 }
///     iif lo accept; meta l4proto tcp accept; udp dport 53 accept; meta l4proto icmpv6 accept
///     reject with icmpx admin-prohibited
/// ```
///
/// What leaves by loopback comes back in by loopback, so that `capture` sees it. The last chain, and
/// the first rule of `out`, are about packets that come from elsewhere, as from a microVM.
///
/// Source: the kernel's `linux/netfilter/nf_tables.h`.
pub(super) static RULES: Bytes<8192> = rules();

/// The message of [`RULES`] that is acknowledged: what follows is the end of the batch.
pub(super) const LAST_RULE: u8 = RULES_COUNT - 1;

const RULES_COUNT: u8 = rules().messages();

const INET: u8 = 2;
const INET6: u8 = 10;

const fn routes() -> Bytes<512> {
    const NEW_LINK: u16 = 16;
    const IFF_UP: u32 = 1;
    let mut bytes = Bytes::new();
    let message = bytes.message(NEW_LINK, ACK);
    // struct ifinfomsg
    bytes.put(&[0; 4]);
    bytes.put(&LO.to_ne_bytes());
    bytes.put(&IFF_UP.to_ne_bytes());
    bytes.put(&IFF_UP.to_ne_bytes());
    bytes.end_message(message);
    address(&mut bytes, INET, 32, &OWN_V4.octets());
    route(&mut bytes, INET, &OWN_V4.octets());
    address(&mut bytes, INET6, 128, &OWN_V6.octets());
    route(&mut bytes, INET6, &OWN_V6.octets());
    bytes
}

/// `address` alone, on loopback.
const fn address(bytes: &mut Bytes<512>, family: u8, bits: u8, address: &[u8]) {
    const NEW_ADDRESS: u16 = 20;
    const NO_DAD: u8 = 2;
    let flags = if family == INET6 { NO_DAD } else { 0 };
    let message = bytes.message(NEW_ADDRESS, ACK | CREATE);
    // struct ifaddrmsg: prefix, flags, scope (everywhere), interface
    bytes.put(&[family, bits, flags, 0]);
    bytes.put(&LO.to_ne_bytes());
    // IFA_LOCAL and IFA_ADDRESS
    bytes.attribute(2, address);
    bytes.attribute(1, address);
    bytes.end_message(message);
}

/// Every address is local. Who does not say from where it sends does so from `source`; else
/// the kernel would take the destination.
const fn route(bytes: &mut Bytes<512>, family: u8, source: &[u8]) {
    const NEW_ROUTE: u16 = 24;
    const LOCAL_TABLE: u8 = 255;
    const BOOT: u8 = 3;
    const HOST: u8 = 254;
    const LOCAL: u8 = 2;
    let message = bytes.message(NEW_ROUTE, ACK | CREATE);
    // struct rtmsg: lengths of destination and source, type of service
    bytes.put(&[family, 0, 0, 0, LOCAL_TABLE, BOOT, HOST, LOCAL, 0, 0, 0, 0]);
    // RTA_OIF and RTA_PREFSRC
    bytes.attribute(4, &LO.to_ne_bytes());
    bytes.attribute(7, source);
    bytes.end_message(message);
}

type Batch = Bytes<8192>;

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP_V6: u8 = 58;
const DNS: u16 = 53;

const fn rules() -> Batch {
    const PRE_ROUTING: u32 = 0;
    const LOCAL_IN: u32 = 1;
    const LOCAL_OUT: u32 = 3;
    let mut batch = Bytes::new();
    frame(&mut batch, 0x10);
    table(&mut batch);
    chain(&mut batch, CAPTURE, PRE_ROUTING, -150);
    accept_local(&mut batch, CAPTURE);
    capture_tcp(&mut batch);
    chain(&mut batch, OUT, LOCAL_OUT, 0);
    accept_interface(&mut batch, OUT, OUT_INTERFACE, NOT_EQUAL);
    accept_local(&mut batch, OUT);
    accept_protocol(&mut batch, OUT, TCP);
    accept_dns(&mut batch, OUT);
    reject(&mut batch, OUT, 0);
    chain(&mut batch, INP, LOCAL_IN, 0);
    accept_interface(&mut batch, INP, IN_INTERFACE, EQUAL);
    accept_protocol(&mut batch, INP, TCP);
    accept_dns(&mut batch, INP);
    accept_protocol(&mut batch, INP, ICMP_V6);
    reject(&mut batch, INP, ACK);
    frame(&mut batch, 0x11);
    batch
}

const TABLE: &[u8] = b"atoll\0";
const CAPTURE: &[u8] = b"capture\0";
const OUT: &[u8] = b"out\0";
const INP: &[u8] = b"inp\0";

/// Keys of `meta`, and how to compare.
const PROTOCOL_OF_NETWORK: u32 = 15;
const PROTOCOL_OF_TRANSPORT: u32 = 16;
const IN_INTERFACE: u32 = 4;
const OUT_INTERFACE: u32 = 5;
const EQUAL: u32 = 0;
const NOT_EQUAL: u32 = 1;

/// Begin or end of the batch, which is for nf_tables.
const fn frame(batch: &mut Batch, kind: u16) {
    let message = batch.message(kind, 0);
    batch.put(&[0, 0]);
    batch.put(&10_u16.to_be_bytes());
    batch.end_message(message);
}

/// A message of nf_tables about the family `inet`.
const fn message(batch: &mut Batch, kind: u16, flags: u16) -> super::bytes::Open {
    let message = batch.message(10 << 8 | kind, flags);
    // struct nfgenmsg: NFPROTO_INET
    batch.put(&[1, 0, 0, 0]);
    message
}

const fn table(batch: &mut Batch) {
    let message = message(batch, 0, CREATE);
    batch.attribute(1, TABLE);
    batch.end_message(message);
}

const fn chain(batch: &mut Batch, name: &[u8], hook: u32, priority: i32) {
    let message = message(batch, 3, CREATE);
    batch.attribute(1, TABLE);
    batch.attribute(3, name);
    let hooks = batch.nested(4);
    batch.attribute(1, &hook.to_be_bytes());
    batch.attribute(2, &priority.to_be_bytes());
    batch.end(hooks);
    batch.attribute(7, b"filter\0");
    batch.end_message(message);
}

/// A rule that has begun: its message and its list of expressions.
struct Rule(super::bytes::Open, super::bytes::Open);

const fn rule(batch: &mut Batch, chain: &[u8], flags: u16) -> Rule {
    let message = message(batch, 6, CREATE | APPEND | flags);
    batch.attribute(1, TABLE);
    batch.attribute(2, chain);
    Rule(message, batch.nested(4))
}

const fn end_rule(batch: &mut Batch, rule: Rule) {
    batch.end(rule.1);
    batch.end_message(rule.0);
}

/// An expression that has begun: itself and its data.
struct Expression(super::bytes::Open, super::bytes::Open);

const fn expression(batch: &mut Batch, name: &[u8]) -> Expression {
    let element = batch.nested(1);
    batch.attribute(1, name);
    Expression(element, batch.nested(2))
}

const fn end_expression(batch: &mut Batch, expression: Expression) {
    batch.end(expression.1);
    batch.end(expression.0);
}

const REGISTER: [u8; 4] = 1_u32.to_be_bytes();

const fn meta(batch: &mut Batch, key: u32) {
    let meta = expression(batch, b"meta\0");
    batch.attribute(2, &key.to_be_bytes());
    batch.attribute(1, &REGISTER);
    end_expression(batch, meta);
}

/// Part of a packet's header: 1 is the network's, 2 the transport's.
const fn payload(batch: &mut Batch, header: u32, offset: u32, length: u32) {
    let payload = expression(batch, b"payload\0");
    batch.attribute(1, &REGISTER);
    batch.attribute(2, &header.to_be_bytes());
    batch.attribute(3, &offset.to_be_bytes());
    batch.attribute(4, &length.to_be_bytes());
    end_expression(batch, payload);
}

const fn compare(batch: &mut Batch, how: u32, with: &[u8]) {
    let compare = expression(batch, b"cmp\0");
    batch.attribute(1, &REGISTER);
    batch.attribute(2, &how.to_be_bytes());
    let data = batch.nested(3);
    batch.attribute(1, with);
    batch.end(data);
    end_expression(batch, compare);
}

const fn accept(batch: &mut Batch) {
    const VERDICT_REGISTER: u32 = 0;
    const NF_ACCEPT: u32 = 1;
    let immediate = expression(batch, b"immediate\0");
    batch.attribute(1, &VERDICT_REGISTER.to_be_bytes());
    let data = batch.nested(2);
    let verdict = batch.nested(2);
    batch.attribute(1, &NF_ACCEPT.to_be_bytes());
    batch.end(verdict);
    batch.end(data);
    end_expression(batch, immediate);
}

/// The sandbox's own addresses.
const fn accept_local(batch: &mut Batch, chain: &[u8]) {
    const LOOPBACK_V6: [u8; 16] = std::net::Ipv6Addr::LOCALHOST.octets();
    // The first byte of an address says that it is in 127.0.0.0/8.
    accept_destination(batch, chain, (INET, 16, 1), &[127]);
    accept_destination(batch, chain, (INET, 16, 4), &OWN_V4.octets());
    accept_destination(batch, chain, (INET6, 24, 16), &LOOPBACK_V6);
    accept_destination(batch, chain, (INET6, 24, 16), &OWN_V6.octets());
}

const fn accept_destination(
    batch: &mut Batch,
    chain: &[u8],
    (family, offset, length): (u8, u32, u32),
    address: &[u8],
) {
    let rule = rule(batch, chain, 0);
    meta(batch, PROTOCOL_OF_NETWORK);
    compare(batch, EQUAL, &[family]);
    payload(batch, 1, offset, length);
    compare(batch, EQUAL, address);
    accept(batch);
    end_rule(batch, rule);
}

const fn accept_interface(batch: &mut Batch, chain: &[u8], key: u32, how: u32) {
    let rule = rule(batch, chain, 0);
    meta(batch, key);
    compare(batch, how, &LO.to_ne_bytes());
    accept(batch);
    end_rule(batch, rule);
}

const fn accept_protocol(batch: &mut Batch, chain: &[u8], protocol: u8) {
    let rule = rule(batch, chain, 0);
    meta(batch, PROTOCOL_OF_TRANSPORT);
    compare(batch, EQUAL, &[protocol]);
    accept(batch);
    end_rule(batch, rule);
}

const fn accept_dns(batch: &mut Batch, chain: &[u8]) {
    let rule = rule(batch, chain, 0);
    meta(batch, PROTOCOL_OF_TRANSPORT);
    compare(batch, EQUAL, &[UDP]);
    payload(batch, 2, 2, 2);
    compare(batch, EQUAL, &DNS.to_be_bytes());
    accept(batch);
    end_rule(batch, rule);
}

const fn reject(batch: &mut Batch, chain: &[u8], flags: u16) {
    const ICMPX: u32 = 2;
    const ADMIN_PROHIBITED: u8 = 3;
    let rule = rule(batch, chain, flags);
    let reject = expression(batch, b"reject\0");
    batch.attribute(1, &ICMPX.to_be_bytes());
    batch.attribute(2, &[ADMIN_PROHIBITED]);
    end_expression(batch, reject);
    end_rule(batch, rule);
}

const fn capture_tcp(batch: &mut Batch) {
    const BOTH_FAMILIES: u32 = 0;
    let rule = rule(batch, CAPTURE, 0);
    meta(batch, PROTOCOL_OF_TRANSPORT);
    compare(batch, EQUAL, &[TCP]);
    let port = expression(batch, b"immediate\0");
    batch.attribute(1, &REGISTER);
    let data = batch.nested(2);
    batch.attribute(1, &PORT.to_be_bytes());
    batch.end(data);
    end_expression(batch, port);
    let tproxy = expression(batch, b"tproxy\0");
    batch.attribute(1, &BOTH_FAMILIES.to_be_bytes());
    batch.attribute(3, &REGISTER);
    end_expression(batch, tproxy);
    accept(batch);
    end_rule(batch, rule);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line for each message: its type, its flags, and what is in it.
    fn lines<const N: usize>(messages: &Bytes<N>) -> String {
        let mut rest = messages.as_slice();
        let mut lines = String::new();
        while let [a, b, c, d, e, f, g, h, ..] = *rest {
            let length = usize::try_from(u32::from_ne_bytes([a, b, c, d])).unwrap();
            let kind = u16::from_ne_bytes([e, f]);
            let flags = u16::from_ne_bytes([g, h]);
            let hex: String = rest[16..length].iter().map(|byte| format!("{byte:02x}")).collect();
            lines += &format!("{kind:04x} {flags:04x} {hex}\n");
            rest = &rest[length..];
        }
        lines
    }

    /// Numbers within are of either order of bytes, so the snapshot is of one.
    #[cfg(target_endian = "little")]
    #[test]
    fn the_messages_are_these() {
        let found = format!("routes\n{}rules\n{}", lines(&ROUTES), lines(&RULES));
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/capture/rules.snap");
        let expected = std::fs::read_to_string(path).unwrap_or_default();
        if found != expected {
            let new = format!("{path}.pending-snap");
            std::fs::write(&new, found).unwrap();
            panic!("{path} is not what is sent; {new} is");
        }
    }
}
