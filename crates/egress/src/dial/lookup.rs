//! Names to addresses, outside.
//!
//! The system's own resolver is not used: it loads whatever modules the host has configured into
//! the process, and this one has the secrets of sandboxes in its memory.

use crate::control::Resolver;
use crate::name::Name;
use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{self, RData, RecordType};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// How long a server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often each server is asked.
const ROUNDS: usize = 2;

/// Most servers, as resolv.conf(5) has it.
const SERVERS_MAX: usize = 3;

/// Most addresses of a name that are looked at.
const ADDRESSES_MAX: usize = 32;

/// Bytes of an answer over UDP that is asked for (RFC 9715).
const UDP_BYTES: u16 = 1232;

/// Room for one: some servers send more than was asked for. What is longer is not understood.
const UDP_ROOM: usize = 4096;

/// Where names are looked up; it may be told otherwise at any time.
#[derive(Debug, Default)]
pub struct Lookups {
    resolver: Mutex<Arc<Resolver>>,
}

/// Why a name has no address.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// Nobody is there to be asked.
    #[error("no DNS server is configured outside")]
    NoServer,
    /// There is no such name.
    #[error("there is no such name")]
    NoName,
    /// The name is there, but no address.
    #[error("the name has no address{}", if *.ipv6 { "" } else { " of IPv4" })]
    NoAddress {
        /// Whether addresses of IPv6 would have done.
        ipv6: bool,
    },
    /// A server could not, or would not, say.
    #[error("the DNS server answers {0}")]
    Refused(ResponseCode),
    /// None answered in time, or in a way that is understood.
    #[error("no DNS server answers")]
    Silent(#[source] io::Error),
}

impl Lookups {
    /// Looks names up there from now on.
    pub fn set(&self, resolver: Resolver) {
        *self.resolver.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
            Arc::new(resolver);
    }

    /// The addresses of a name, those of IPv4 first. Nothing is remembered.
    ///
    /// # Errors
    ///
    /// See [`LookupError`].
    pub async fn addresses(&self, name: &Name, ipv6: bool) -> Result<Vec<IpAddr>, LookupError> {
        let resolver =
            self.resolver.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let usable = |address: &IpAddr| ipv6 || address.is_ipv4();
        if let Some((_, known)) = resolver.hosts.iter().find(|(host, _)| host == name) {
            let known: Vec<IpAddr> = known.iter().copied().filter(usable).collect();
            return if known.is_empty() { Err(LookupError::NoAddress { ipv6 }) } else { Ok(known) };
        }
        let (four, six) = tokio::join!(ask(&resolver.servers, name, RecordType::A), async {
            match ipv6 {
                true => ask(&resolver.servers, name, RecordType::AAAA).await,
                false => Ok(Vec::new()),
            }
        });
        let mut addresses = Vec::new();
        let mut failed = None;
        for answer in [four, six] {
            match answer {
                Ok(some) => addresses.extend(some),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        addresses.truncate(ADDRESSES_MAX);
        match failed {
            _ if !addresses.is_empty() => Ok(addresses),
            Some(error) => Err(error),
            None => Err(LookupError::NoAddress { ipv6 }),
        }
    }
}

/// Asks one server after the other.
async fn ask(
    servers: &[SocketAddr],
    name: &Name,
    kind: RecordType,
) -> Result<Vec<IpAddr>, LookupError> {
    let mut failed = LookupError::NoServer;
    for _ in 0..ROUNDS {
        for server in servers.iter().take(SERVERS_MAX) {
            match timeout(PATIENCE, ask_one(*server, name, kind)).await {
                Ok(Ok(answer)) => match understood(&answer, kind) {
                    Err(LookupError::Refused(code)) => failed = LookupError::Refused(code),
                    known => return known,
                },
                Ok(Err(error)) => failed = LookupError::Silent(error),
                Err(elapsed) => failed = LookupError::Silent(elapsed.into()),
            }
        }
    }
    Err(failed)
}

/// The answer of one server, over TCP where it does not fit a datagram.
async fn ask_one(server: SocketAddr, name: &Name, kind: RecordType) -> io::Result<Message> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, format!("{error}"));
    let absolute = rr::Name::from_ascii(format!("{name}.")).map_err(invalid)?;
    let mut id = [0; 2];
    getrandom::fill(&mut id).map_err(io::Error::other)?;
    let mut question = Message::new(u16::from_ne_bytes(id), MessageType::Query, OpCode::Query);
    question.metadata.recursion_desired = true;
    question.queries.push(Query::query(absolute, kind));
    let mut edns = Edns::new();
    edns.set_max_payload(UDP_BYTES);
    question.edns = Some(edns);
    let bytes = question.to_vec().map_err(invalid)?;
    let unspecified: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // A socket of its own, so that its port is another one each time; and connected, so that
    // nobody but the server is heard.
    let socket = UdpSocket::bind((unspecified, 0)).await?;
    socket.connect(server).await?;
    socket.send(&bytes).await?;
    let mut buffer = vec![0; UDP_ROOM];
    loop {
        let length = socket.recv(&mut buffer).await?;
        match Message::from_vec(&buffer[..length]) {
            Ok(answer) if is_answer(&answer, &question) && answer.metadata.truncation => break,
            Ok(answer) if is_answer(&answer, &question) => return Ok(answer),
            // Somebody guesses.
            Ok(_) | Err(_) => {}
        }
    }
    over_tcp(server, &question, &bytes).await
}

async fn over_tcp(server: SocketAddr, question: &Message, bytes: &[u8]) -> io::Result<Message> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    stream.write_all(&[&length.to_be_bytes(), bytes].concat()).await?;
    let mut length = [0; 2];
    stream.read_exact(&mut length).await?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer).await?;
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, format!("{error}"));
    let answer = Message::from_vec(&answer).map_err(invalid)?;
    match is_answer(&answer, question) {
        true => Ok(answer),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "an answer to another question")),
    }
}

fn is_answer(answer: &Message, question: &Message) -> bool {
    answer.metadata.id == question.metadata.id
        && answer.metadata.message_type == MessageType::Response
        && answer.queries == question.queries
}

/// The addresses in an answer. A server that resolves follows aliases itself and puts what they
/// lead to behind them; whose they are makes no difference to what is judged, the address.
fn understood(answer: &Message, kind: RecordType) -> Result<Vec<IpAddr>, LookupError> {
    match answer.metadata.response_code {
        ResponseCode::NoError => {}
        ResponseCode::NXDomain => return Err(LookupError::NoName),
        code => return Err(LookupError::Refused(code)),
    }
    let address = |record: &rr::Record| match &record.data {
        RData::A(address) if kind == RecordType::A => Some(IpAddr::V4(address.0)),
        RData::AAAA(address) if kind == RecordType::AAAA => Some(IpAddr::V6(address.0)),
        _ => None,
    };
    Ok(answer.answers.iter().filter_map(address).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_proto::rr::Record;
    use hickory_proto::rr::rdata::{A, AAAA};

    /// A server that answers over UDP as `answer` says.
    async fn server(answer: fn(&Message) -> Vec<Message>) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        tokio::spawn(async move {
            let mut buffer = [0; 2000];
            while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
                let asked = Message::from_vec(&buffer[..length]).unwrap();
                for answer in answer(&asked) {
                    socket.send_to(&answer.to_vec().unwrap(), from).await.unwrap();
                }
            }
        });
        address
    }

    fn reply(asked: &Message, code: ResponseCode, data: Vec<RData>) -> Message {
        let mut reply = Message::response(asked.metadata.id, asked.metadata.op_code);
        reply.metadata.response_code = code;
        reply.queries.clone_from(&asked.queries);
        let name = asked.queries[0].name().clone();
        reply.answers =
            data.into_iter().map(|data| Record::from_rdata(name.clone(), 60, data)).collect();
        reply
    }

    fn lookups(servers: Vec<SocketAddr>) -> Lookups {
        let lookups = Lookups::default();
        let hosts = vec![("db.local".parse().unwrap(), vec!["10.0.0.7".parse().unwrap()])];
        lookups.set(Resolver { servers, hosts });
        lookups
    }

    async fn found(lookups: &Lookups, name: &str, ipv6: bool) -> Result<Vec<String>, LookupError> {
        let addresses = lookups.addresses(&name.parse().unwrap(), ipv6).await?;
        Ok(addresses.iter().map(ToString::to_string).collect())
    }

    #[tokio::test]
    async fn both_kinds_of_addresses_are_found() {
        let both = server(|asked| {
            let data = match asked.queries[0].query_type() {
                RecordType::A => RData::A(A::new(192, 0, 2, 1)),
                _ => RData::AAAA(AAAA::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
            };
            vec![reply(asked, ResponseCode::NoError, vec![data])]
        });
        let lookups = lookups(vec![both.await]);
        assert_eq!(found(&lookups, "a.test", true).await.unwrap(), ["192.0.2.1", "2001:db8::1"]);
        assert_eq!(found(&lookups, "a.test", false).await.unwrap(), ["192.0.2.1"]);
        assert_eq!(found(&lookups, "db.local", true).await.unwrap(), ["10.0.0.7"]);
    }

    #[tokio::test]
    async fn who_guesses_is_not_heard_and_the_next_server_is_asked() {
        let guesses = server(|asked| {
            let mut other = reply(asked, ResponseCode::NoError, vec![RData::A(A::new(6, 6, 6, 6))]);
            other.metadata.id = asked.metadata.id.wrapping_add(1);
            let mut elsewhere =
                reply(asked, ResponseCode::NoError, vec![RData::A(A::new(6, 6, 6, 6))]);
            elsewhere.queries[0] =
                Query::query(rr::Name::from_ascii("b.test.").unwrap(), RecordType::A);
            let right = reply(asked, ResponseCode::NoError, vec![RData::A(A::new(192, 0, 2, 1))]);
            vec![other, elsewhere, right]
        });
        let fails = server(|asked| vec![reply(asked, ResponseCode::ServFail, Vec::new())]);
        let lookups = lookups(vec![fails.await, guesses.await]);
        assert_eq!(found(&lookups, "a.test", false).await.unwrap(), ["192.0.2.1"]);
    }

    #[tokio::test]
    async fn what_is_not_found_says_why() {
        let none = server(|asked| vec![reply(asked, ResponseCode::NXDomain, Vec::new())]).await;
        let empty = server(|asked| vec![reply(asked, ResponseCode::NoError, Vec::new())]).await;
        let broken = server(|asked| vec![reply(asked, ResponseCode::ServFail, Vec::new())]).await;
        for (servers, says) in [
            (vec![none], "no such name"),
            (vec![empty], "no address"),
            (vec![broken], "answers"),
            (vec![], "no DNS server is configured"),
        ] {
            let error = found(&lookups(servers), "a.test", true).await.unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    #[tokio::test]
    async fn a_long_answer_comes_over_tcp() {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        tokio::spawn(async move {
            let mut buffer = [0; 2000];
            let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
            let asked = Message::from_vec(&buffer[..length]).unwrap();
            let mut cut = reply(&asked, ResponseCode::NoError, Vec::new());
            cut.metadata.truncation = true;
            socket.send_to(&cut.to_vec().unwrap(), from).await.unwrap();
            let (mut stream, _) = listener.accept().await.unwrap();
            let length = stream.read_u16().await.unwrap();
            let mut asked = vec![0; usize::from(length)];
            stream.read_exact(&mut asked).await.unwrap();
            let asked = Message::from_vec(&asked).unwrap();
            let many = (0..200).map(|last| RData::A(A::new(192, 0, 2, last))).collect();
            let whole = reply(&asked, ResponseCode::NoError, many).to_vec().unwrap();
            stream.write_u16(whole.len().try_into().unwrap()).await.unwrap();
            stream.write_all(&whole).await.unwrap();
        });
        let found = found(&lookups(vec![address]), "a.test", false).await.unwrap();
        assert_eq!(found.len(), ADDRESSES_MAX);
    }
}
