//! A small internet on loopback, for sandboxes to reach: names, and servers that go by them.
//!
//! Everything ends with the process that made it; nothing of it is seen beyond this machine.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

/// Names, an authority that vouches for them, and what was asked.
pub struct Internet {
    dns: SocketAddr,
    names: Arc<Mutex<Names>>,
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

#[derive(Default)]
struct Names {
    /// Answers, which are given one after the other and the last one for ever.
    known: HashMap<String, Vec<Vec<IpAddr>>>,
    questions: Vec<String>,
}

/// A request as a server got it.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// Names in lower case, in the order in which they came.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// The values of all headers of this name.
    #[must_use]
    pub fn all(&self, name: &str) -> Vec<&str> {
        let found = self.headers.iter().filter(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).collect()
    }
}

/// What a server answers: status, headers, body.
pub type Response = (u16, Vec<(&'static str, String)>, Vec<u8>);

/// A server of HTTP, and what it was asked.
pub struct Site {
    pub port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Site {
    /// All requests that came so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("nobody panicked").clone()
    }
}

impl Default for Internet {
    fn default() -> Self {
        Self::new()
    }
}

impl Internet {
    /// One without names.
    ///
    /// # Panics
    ///
    /// There is no loopback.
    #[must_use]
    pub fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let dns = socket.local_addr().expect("an address");
        let names = Arc::new(Mutex::new(Names::default()));
        let answering = Arc::clone(&names);
        thread::spawn(move || answer_questions(&socket, &answering));
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority of tests");
        let certificate = pem(params.self_signed(&key).expect("a certificate").der());
        Self { dns, names, certificate, issuer: Issuer::new(params, key) }
    }

    /// Where names are looked up, as `ADDRESS:PORT`.
    #[must_use]
    pub fn dns(&self) -> String {
        self.dns.to_string()
    }

    /// The certificate of the authority, in PEM.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Gives a name addresses.
    ///
    /// # Panics
    ///
    /// They are none.
    pub fn name(&self, name: &str, addresses: &[&str]) {
        self.name_in_turn(name, &[addresses]);
    }

    /// Gives a name other addresses each time it is asked for; the last ones stay.
    ///
    /// # Panics
    ///
    /// They are none.
    pub fn name_in_turn(&self, name: &str, turns: &[&[&str]]) {
        let turn = |addresses: &&[&str]| {
            addresses.iter().map(|a| a.parse().expect("an address")).collect()
        };
        let turns = turns.iter().map(turn).collect();
        self.names.lock().expect("nobody panicked").known.insert(name.to_owned(), turns);
    }

    /// Every name that was asked for, each as often as it was.
    ///
    /// # Panics
    ///
    /// The thread that answers has.
    #[must_use]
    pub fn questions(&self) -> Vec<String> {
        self.names.lock().expect("nobody panicked").questions.clone()
    }

    /// Serves every connection to a new port in a thread of its own.
    ///
    /// # Panics
    ///
    /// There is no port left.
    pub fn serve(&self, serve: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let serve = Arc::new(serve);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serve = Arc::clone(&serve);
                thread::spawn(move || serve(stream));
            }
        });
        port
    }

    /// Serves HTTP.
    pub fn http(&self, answer: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Site {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let port = self.serve(move |stream| converse(stream, &seen, &answer));
        Site { port, requests }
    }

    /// Serves HTTP over TLS, with a certificate for these names.
    ///
    /// # Panics
    ///
    /// They are none.
    pub fn https(
        &self,
        names: &[&str],
        answer: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> Site {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let port = self.serve_tls(names, move |stream| converse(stream, &seen, &answer));
        Site { port, requests }
    }

    /// Serves every connection over TLS in a thread of its own, with a certificate for these names.
    ///
    /// # Panics
    ///
    /// They are none.
    pub fn serve_tls(
        &self,
        names: &[&str],
        serve: impl Fn(StreamOwned<ServerConnection, TcpStream>) + Send + Sync + 'static,
    ) -> u16 {
        let config = self.tls(names);
        self.serve(move |stream| {
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
            serve(StreamOwned::new(connection, stream));
        })
    }

    /// How TLS is served with a certificate for these names.
    ///
    /// # Panics
    ///
    /// They are none.
    #[must_use]
    pub fn tls(&self, names: &[&str]) -> Arc<ServerConfig> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let params = CertificateParams::new(names).expect("names");
        let leaf = params.signed_by(&key, &self.issuer).expect("a certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("a configuration")
            .with_no_client_auth()
            .with_single_cert(
                vec![leaf.der().clone()],
                PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            )
            .expect("a configuration");
        Arc::new(config)
    }
}

/// A certificate as files have it (RFC 7468).
fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).flat_map(str::from_utf8).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// Answers until the socket fails. Only questions of one name are understood.
fn answer_questions(socket: &UdpSocket, names: &Mutex<Names>) {
    let mut buffer = [0; 2048];
    while let Ok((length, from)) = socket.recv_from(&mut buffer) {
        let Some((name, kind, end)) = question(&buffer[..length]) else { continue };
        let addresses = {
            let mut names = names.lock().expect("nobody panicked");
            names.questions.push(name.clone());
            match names.known.get_mut(&name) {
                // Both kinds belong to one turn.
                Some(turns) if turns.len() > 1 && kind == A => Some(turns.remove(0)),
                Some(turns) => turns.first().cloned(),
                None => None,
            }
        };
        let code = if addresses.is_some() { 0 } else { 3 };
        let records: Vec<u8> =
            addresses.unwrap_or_default().iter().flat_map(|one| record(one, kind)).collect();
        let count = records.len() / if kind == A { 16 } else { 28 };
        let mut answer = buffer[..2].to_vec();
        answer.extend([0x81, 0x80 | code, 0, 1, 0, u8::try_from(count).expect("few"), 0, 0, 0, 0]);
        answer.extend(&buffer[12..end]);
        answer.extend(records);
        socket.send_to(&answer, from).ok();
    }
}

const A: u16 = 1;
const AAAA: u16 = 28;

fn question(bytes: &[u8]) -> Option<(String, u16, usize)> {
    let mut labels = Vec::new();
    let mut at = 12;
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(bytes.get(at..at + length)?).to_lowercase());
        at += length;
    }
    let kind = u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?);
    Some((labels.join("."), kind, at + 4))
}

fn record(address: &IpAddr, kind: u16) -> Vec<u8> {
    let data = match (address, kind) {
        (IpAddr::V4(address), A) => address.octets().to_vec(),
        (IpAddr::V6(address), AAAA) => address.octets().to_vec(),
        _ => return Vec::new(),
    };
    let mut record = vec![0xc0, 12];
    record.extend(kind.to_be_bytes());
    record.extend([0, 1, 0, 0, 0, 60]);
    record.extend(u16::try_from(data.len()).expect("short").to_be_bytes());
    record.extend(data);
    record
}

/// One connection of HTTP/1.1, to its end.
fn converse(
    stream: impl Read + Write,
    requests: &Mutex<Vec<Request>>,
    answer: &dyn Fn(&Request) -> Response,
) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_request(&mut stream) {
        requests.lock().expect("nobody panicked").push(request.clone());
        let (status, headers, body) = answer(&request);
        let mut head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        let body = if request.method == "HEAD" { Vec::new() } else { body };
        let sent = stream.get_mut().write_all(&[head.into_bytes(), body].concat());
        let is_last = request.all("connection").iter().any(|it| it.eq_ignore_ascii_case("close"));
        if sent.and_then(|()| stream.get_mut().flush()).is_err() || is_last {
            return;
        }
    }
}

fn read_request(stream: &mut impl BufRead) -> Option<Request> {
    let mut line = || {
        let mut line = String::new();
        let length = stream.read_line(&mut line).ok()?;
        (length > 0).then(|| line.trim_end().to_owned())
    };
    let first = line()?;
    let mut words = first.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let line = line()?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':')?;
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let is_chunked = headers.iter().any(|(name, _)| name == "transfer-encoding");
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let body = if is_chunked { read_chunks(stream)? } else { read_piece(stream, length)? };
    Some(Request { method, path, headers, body })
}

/// A body in chunks without trailers (RFC 9112, section 7.1).
fn read_chunks(stream: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let length = usize::from_str_radix(line.trim_end(), 16).ok()?;
        body.extend(read_piece(stream, length)?);
        stream.read_line(&mut line).ok()?;
        if length == 0 {
            return Some(body);
        }
    }
}

fn read_piece(stream: &mut impl BufRead, length: usize) -> Option<Vec<u8>> {
    let mut piece = vec![0; length];
    stream.read_exact(&mut piece).ok()?;
    Some(piece)
}
