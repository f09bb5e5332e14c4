//! Answers to what programs inside ask of DNS. Nothing is looked up for any of them.
//!
//! A name that may be reached has the address that stands for it, whatever kinds it has in the
//! world; all other kinds of records are empty, so no encrypted hello and no other protocol is
//! offered. A name that may not be reached does not exist, with the reason in an extended error
//! (RFC 8914): every resolver takes that for an answer at once, where a refusal or a failure
//! would make it wait and ask again.

use crate::name::Name;
use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::opt::EdnsOption;
use hickory_proto::rr::rdata::{A, AAAA, PTR, SOA};
use hickory_proto::rr::{self, DNSClass, RData, Record, RecordType};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Seconds for which may be kept what an address stands for.
const TTL: u32 = 60;

/// Seconds for which it may be kept that there is nothing, for that may change by an approval.
const NOTHING_TTL: u32 = 1;

/// The code of "Blocked" among extended errors, and that of the option (RFC 8914).
const BLOCKED: u16 = 15;
const EXTENDED_ERROR: u16 = 15;

/// Bytes that are sent at most over UDP: what passes every link unbroken.
const UDP_BYTES_MAX: u16 = 1232;

/// Bytes that a client takes that does not say how many (RFC 1035, section 4.2.1).
const UDP_BYTES_ALWAYS: u16 = 512;

/// Most bytes of a reason.
const REASON_BYTES_MAX: usize = 300;

/// How a question came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// As a datagram: a long answer is cut, and asked for again over TCP.
    Udp,
    /// As a stream.
    Tcp,
}

/// What a name has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The address.
    pub address: Ipv4Addr,
    /// For how many seconds it may be kept.
    pub seconds: u32,
}

/// Who knows what a sandbox may reach.
pub trait Names {
    /// The address that stands for a name.
    ///
    /// # Errors
    ///
    /// Why it has none, in words for who reads it inside.
    fn address(&mut self, name: &Name) -> Result<Standing, String>;

    /// The name that an address stands for.
    fn name(&self, address: Ipv4Addr) -> Option<Name>;
}

/// Answers a message; none where silence is the answer, as to what is an answer itself.
#[must_use]
pub fn answer(bytes: &[u8], transport: Transport, names: &mut dyn Names) -> Option<Vec<u8>> {
    let asked = match Message::from_vec(bytes) {
        Ok(asked) => asked,
        Err(_) => return malformed(bytes),
    };
    if asked.metadata.message_type != MessageType::Query {
        return None;
    }
    let mut reply = Message::response(asked.metadata.id, asked.metadata.op_code);
    reply.metadata.recursion_desired = asked.metadata.recursion_desired;
    reply.metadata.recursion_available = true;
    reply.metadata.checking_disabled = asked.metadata.checking_disabled;
    // Who asks several at once gets none of them back: there may be no room.
    if let [query] = asked.queries.as_slice() {
        reply.queries.push(query.clone());
    }
    if let Some(theirs) = &asked.edns {
        let mut ours = Edns::new();
        ours.set_max_payload(UDP_BYTES_MAX);
        ours.set_dnssec_ok(theirs.flags().dnssec_ok);
        reply.edns = Some(ours);
    }
    match (asked.metadata.op_code, asked.queries.as_slice(), &asked.edns) {
        (_, _, Some(theirs)) if theirs.version() != 0 => set(&mut reply, ResponseCode::BADVERS),
        (OpCode::Query, [query], _) => reply_to(&mut reply, query, names),
        (OpCode::Query, _, _) => set(&mut reply, ResponseCode::FormErr),
        (_, _, _) => set(&mut reply, ResponseCode::NotImp),
    }
    let room = match (transport, &asked.edns) {
        (Transport::Tcp, _) => u16::MAX,
        (Transport::Udp, Some(theirs)) => {
            theirs.max_payload().clamp(UDP_BYTES_ALWAYS, UDP_BYTES_MAX)
        }
        (Transport::Udp, None) => UDP_BYTES_ALWAYS,
    };
    let sent = reply.to_vec().ok()?;
    if sent.len() <= usize::from(room) {
        return Some(sent);
    }
    let mut cut = reply.truncate();
    cut.queries = reply.queries;
    cut.to_vec().ok()
}

/// The answer to what has a head and is no message behind it.
fn malformed(bytes: &[u8]) -> Option<Vec<u8>> {
    let [high, low, flags, ..] = bytes else { return None };
    let is_answer = flags & 0x80 != 0;
    if bytes.len() < 12 || is_answer {
        return None;
    }
    let id = u16::from_be_bytes([*high, *low]);
    Message::error_msg(id, OpCode::Query, ResponseCode::FormErr).to_vec().ok()
}

fn set(reply: &mut Message, code: ResponseCode) {
    reply.metadata.response_code = code;
    if let Some(edns) = &mut reply.edns {
        edns.set_rcode_high(code.high());
    }
}

fn reply_to(reply: &mut Message, query: &Query, names: &mut dyn Names) {
    if query.query_class() != DNSClass::IN {
        return nothing(reply, Some("only the class IN is known here"));
    }
    let name = match to_name(query.name()) {
        Ok(name) => name,
        Err(reason) => return nothing(reply, Some(&reason)),
    };
    if let Some(address) = reversed(query.name()) {
        let found = match address {
            IpAddr::V4(address) => names.name(address),
            IpAddr::V6(_) => None,
        };
        let target = found.and_then(|name| rr::Name::from_ascii(format!("{name}.")).ok());
        return match target {
            Some(target) if query.query_type() == RecordType::PTR => {
                add(reply, query, TTL, RData::PTR(PTR(target)));
            }
            Some(_) => empty(reply),
            None => nothing(reply, None),
        };
    }
    let is_own = name.as_str() == "localhost" || name.as_str().ends_with(".localhost");
    let address = match is_own {
        true => Ok(Standing { address: Ipv4Addr::LOCALHOST, seconds: TTL }),
        false => names.address(&name),
    };
    match (address, query.query_type()) {
        (Err(reason), _) => nothing(reply, Some(&reason)),
        (Ok(Standing { address, seconds }), RecordType::A | RecordType::ANY) => {
            add(reply, query, seconds, RData::A(A(address)));
        }
        (Ok(_), RecordType::AAAA) if is_own => {
            add(reply, query, TTL, RData::AAAA(AAAA(Ipv6Addr::LOCALHOST)));
        }
        (Ok(_), _) => empty(reply),
    }
}

/// A name as rules know it. A label may hold any byte in DNS, also a dot.
fn to_name(name: &rr::Name) -> Result<Name, String> {
    let mut text = Vec::new();
    for label in name.iter() {
        if label.contains(&b'.') {
            return Err("a part of the name has a dot in it".to_owned());
        }
        text.extend_from_slice(label);
        text.push(b'.');
    }
    let text = String::from_utf8(text).map_err(|_| "the name is not ASCII".to_owned())?;
    text.parse().map_err(|error: crate::name::NameError| error.to_string())
}

/// The address that is asked for backwards (RFC 1035, section 3.5; RFC 3596, section 2.5).
fn reversed(name: &rr::Name) -> Option<IpAddr> {
    let network = name.parse_arpa_name().ok()?;
    (network.prefix_len() == network.max_prefix_len()).then(|| network.addr())
}

fn add(reply: &mut Message, query: &Query, seconds: u32, data: RData) {
    reply.answers.push(Record::from_rdata(query.name().clone(), seconds, data));
}

/// The name is there, but nothing of the kind that was asked for.
fn empty(reply: &mut Message) {
    reply.authorities.push(authority());
}

/// The name is not there.
fn nothing(reply: &mut Message, reason: Option<&str>) {
    set(reply, ResponseCode::NXDomain);
    reply.authorities.push(authority());
    if let (Some(edns), Some(reason)) = (&mut reply.edns, reason) {
        let mut end = reason.len().min(REASON_BYTES_MAX);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        let mut option = BLOCKED.to_be_bytes().to_vec();
        option.extend_from_slice(&reason.as_bytes()[..end]);
        edns.options_mut().insert(EdnsOption::Unknown(EXTENDED_ERROR, option));
    }
}

/// Says how long it may be kept that there is nothing (RFC 2308).
fn authority() -> Record {
    let root = rr::Name::root();
    let soa = SOA::new(root.clone(), root.clone(), 1, 3600, 600, 86_400, NOTHING_TTL);
    Record::from_rdata(root, NOTHING_TTL, RData::SOA(soa))
}

#[cfg(test)]
mod tests;
