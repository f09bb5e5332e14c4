//! Who connects, sends and waits. It takes an order a line, and answers with microseconds.

use crate::{BULK, DOWNLOAD, PIECE, PING, SITE, UPLOAD};
use anyhow::{Context as _, Result, bail, ensure};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};
use std::io::BufRead as _;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// How an answer that brought the secret ends.
const ANSWER_END: &[u8] = b"\r\n\r\nok";
const ANSWER_MAX: usize = 16 << 10;

/// Where to connect to.
struct Way {
    bulk: String,
    site: String,
    /// What has to be asked to connect to them.
    proxy: Option<String>,
    tls: Arc<ClientConfig>,
}

pub(crate) async fn run(bulk: &str, site: &str, proxy: Option<&str>) -> Result<()> {
    let way = Way {
        bulk: bulk.to_owned(),
        site: site.to_owned(),
        proxy: proxy.map(str::to_owned),
        tls: Arc::new(trusting()?),
    };
    let way = Arc::new(way);
    let mut held = Vec::new();
    for line in std::io::stdin().lock().lines() {
        match way.carry_out(&line?, &mut held).await {
            Ok(took) => println!("{:.1}", took.as_secs_f64() * 1e6),
            Err(error) => println!("{error:#}"),
        }
    }
    Ok(())
}

impl Way {
    /// Carries an order out; `held` are connections that stay.
    async fn carry_out(
        self: &Arc<Self>,
        order: &str,
        held: &mut Vec<TcpStream>,
    ) -> Result<Duration> {
        let words: Vec<&str> = order.split(' ').collect();
        let number = |text: &str| text.parse::<u32>().context("not a number");
        match words[..] {
            ["download", bytes] => self.download(bytes.parse()?).await,
            ["upload", bytes] => self.upload(bytes.parse()?).await,
            ["connect", count] => {
                let count = number(count)?;
                let begin = Instant::now();
                for _ in 0..count {
                    self.greet().await?;
                }
                Ok(begin.elapsed() / count)
            }
            ["ping", connections, count] => {
                let mut opened = Vec::new();
                for _ in 0..number(connections)? {
                    opened.push(self.greet().await?);
                }
                let begin = Instant::now();
                let count = number(count)?;
                at_once(opened, move |stream| pings(stream, count)).await?;
                Ok(begin.elapsed() / count / number(connections)?)
            }
            ["request", connections, count, token] => {
                let asked = self.asking(token);
                let mut opened = Vec::new();
                for _ in 0..number(connections)? {
                    let mut stream = self.site().await?;
                    request(&mut stream, &asked).await?;
                    opened.push(stream);
                }
                let count = number(count)?;
                let begin = Instant::now();
                at_once(opened, |stream| requests(stream, asked.clone(), count)).await?;
                Ok(begin.elapsed() / count / number(connections)?)
            }
            ["latency", count, token] => self.latency(number(count)?, token).await,
            ["hold", count] => {
                let begin = Instant::now();
                for _ in 0..number(count)? {
                    held.push(self.greet().await?);
                }
                Ok(begin.elapsed())
            }
            _ => bail!("it is not understood"),
        }
    }

    async fn download(&self, bytes: u64) -> Result<Duration> {
        let mut stream = self.greet().await?;
        let begin = Instant::now();
        stream.write_all(&order(DOWNLOAD, bytes)).await?;
        let mut piece = vec![0; PIECE];
        let mut left = usize::try_from(bytes)?;
        while left > 0 {
            let length = stream.read(&mut piece).await?;
            ensure!(length > 0, "{left} bytes are missing");
            left -= length;
        }
        Ok(begin.elapsed())
    }

    async fn upload(&self, bytes: u64) -> Result<Duration> {
        let mut stream = self.greet().await?;
        let begin = Instant::now();
        stream.write_all(&order(UPLOAD, bytes)).await?;
        let piece = vec![0; PIECE];
        let mut left = usize::try_from(bytes)?;
        while left > 0 {
            left -= stream.write(&piece[..left.min(PIECE)]).await?;
        }
        stream.read_u8().await?;
        Ok(begin.elapsed())
    }

    /// The median of requests one after the other.
    async fn latency(&self, count: u32, token: &str) -> Result<Duration> {
        let asked = self.asking(token);
        let mut stream = self.site().await?;
        request(&mut stream, &asked).await?;
        let mut times = Vec::new();
        for _ in 0..count {
            let begin = Instant::now();
            request(&mut stream, &asked).await?;
            times.push(begin.elapsed());
        }
        times.sort_unstable();
        times.get(times.len() / 2).copied().context("no requests")
    }

    /// A connection that has begun like TLS, and was answered.
    async fn greet(&self) -> Result<TcpStream> {
        let mut stream = self.connect(&self.bulk).await?;
        let mut hello = Vec::new();
        let name = ServerName::try_from(BULK).context("a name")?;
        ClientConnection::new(self.tls.clone(), name)?.write_tls(&mut hello)?;
        stream.write_all(&hello).await?;
        stream.read_u8().await.context("nobody answers")?;
        Ok(stream)
    }

    /// A request with this instead of the secret, or with the secret itself.
    fn asking(&self, token: &str) -> Arc<[u8]> {
        let port = self.site.rsplit(':').next().unwrap_or_default();
        let host = format!("{SITE}:{port}");
        let head = format!("GET /thing HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}");
        [head.as_bytes(), b"\r\n\r\n"].concat().into()
    }

    async fn site(&self) -> Result<TlsStream<TcpStream>> {
        let stream = self.connect(&self.site).await?;
        let name = ServerName::try_from(SITE).context("a name")?;
        Ok(TlsConnector::from(self.tls.clone()).connect(name, stream).await?)
    }

    async fn connect(&self, to: &str) -> Result<TcpStream> {
        let address = self.proxy.as_deref().unwrap_or(to);
        let mut stream = TcpStream::connect(address).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        if self.proxy.is_some() {
            let ask = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n");
            stream.write_all(ask.as_bytes()).await?;
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.context("the proxy closed")?);
            }
            let head = String::from_utf8_lossy(&head);
            let line = head.lines().next().unwrap_or_default();
            ensure!(line.split(' ').nth(1) == Some("200"), "the proxy said {line}");
        }
        Ok(stream)
    }
}

fn order(what: u8, bytes: u64) -> Vec<u8> {
    [&[what][..], &bytes.to_be_bytes()].concat()
}

/// Has every connection used at the same time.
async fn at_once<S, F>(streams: Vec<S>, using: impl Fn(S) -> F) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let mut all: JoinSet<Result<()>> = JoinSet::new();
    for stream in streams {
        all.spawn(using(stream));
    }
    while let Some(ended) = all.join_next().await {
        ended??;
    }
    Ok(())
}

async fn pings(mut stream: TcpStream, count: u32) -> Result<()> {
    for _ in 0..count {
        stream.write_u8(PING).await?;
        stream.read_u8().await?;
    }
    Ok(())
}

async fn requests(mut stream: TlsStream<TcpStream>, asked: Arc<[u8]>, count: u32) -> Result<()> {
    for _ in 0..count {
        request(&mut stream, &asked).await?;
    }
    Ok(())
}

async fn request(stream: &mut TlsStream<TcpStream>, asked: &[u8]) -> Result<()> {
    stream.write_all(asked).await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    while !answer.ends_with(ANSWER_END) {
        let length = stream.read_buf(&mut answer).await?;
        let said = || String::from_utf8_lossy(&answer).into_owned();
        let is_refused = !answer.starts_with(b"HTTP/1.1 200");
        ensure!(length > 0 && answer.len() < ANSWER_MAX && !is_refused, "{}", said());
    }
    Ok(())
}

/// One that takes every certificate: who vouches for whom is not what is measured.
fn trusting() -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let schemes = provider.signature_verification_algorithms.supported_schemes();
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(schemes)))
        .with_no_client_auth())
}

#[derive(Debug)]
struct Anybody(Vec<SignatureScheme>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.clone()
    }
}
