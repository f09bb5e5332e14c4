//! As much of HTTP/1.1 as it takes to ask a server of ours: one request after the other on
//! a connection that is kept. Nothing here is for servers that are not trusted.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Where a server is, and as whom to ask there.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    Unix(PathBuf),
    Tcp { address: SocketAddr, key: String },
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A connection to a server.
pub(crate) struct Client {
    stream: BufReader<Stream>,
    /// What every request begins with, behind its first line.
    headers: String,
}

/// An answer that is there.
pub(crate) struct Answer {
    pub(crate) took: Duration,
    what: String,
    status: u16,
    bytes: Vec<u8>,
}

impl Answer {
    /// What it says, unless that is an error.
    pub(crate) fn read(&self) -> Result<Value> {
        let Self { what, status, bytes, .. } = self;
        let said = || String::from_utf8_lossy(bytes).into_owned();
        ensure!((200..300).contains(status), "{what}: {status}: {}", said());
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(bytes).with_context(|| format!("{what}: {}", said()))
    }
}

/// How an answer is put together.
enum Body {
    Length(usize),
    Chunked,
}

/// As much as a pipe of the largest usual size has.
const BUFFER: usize = 1 << 20;

impl Client {
    pub(crate) fn connect(address: &Address) -> Result<Self> {
        let mut headers = "host: localhost\r\ncontent-type: application/json\r\n".to_owned();
        let stream = match address {
            Address::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
            Address::Tcp { address, key } => {
                headers += &format!("authorization: Bearer {key}\r\n");
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
        };
        Ok(Self { stream: BufReader::with_capacity(BUFFER, stream), headers })
    }

    /// Asks; an answer that is an error is one here too.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        self.timed(method, path, body)?.read()
    }

    /// Asks, and tells how long it took until all of the answer was there: to read it is
    /// not the server's work.
    pub(crate) fn timed(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer> {
        let request = self.request(method, path, body.map(Value::to_string).as_deref());
        let mut bytes = Vec::new();
        let begin = Instant::now();
        self.send_bytes(&request)?;
        let status = self.receive(&mut |part| bytes.extend_from_slice(part))?;
        let took = begin.elapsed();
        Ok(Answer { took, what: format!("{method} {path}"), status, bytes })
    }

    /// Asks for something long, which is counted and thrown away.
    pub(crate) fn drain(&mut self, path: &str) -> Result<u64> {
        self.send("GET", path, None)?;
        let mut length = 0;
        let status = self.receive(&mut |part| length += part.len() as u64)?;
        ensure!(status == 200, "GET {path}: {status}");
        Ok(length)
    }

    /// Writes a file.
    pub(crate) fn put(&mut self, path: &str, bytes: &[u8]) -> Result<()> {
        let (headers, length) = (&self.headers, bytes.len());
        let head = format!("PUT {path} HTTP/1.1\r\n{headers}content-length: {length}\r\n\r\n");
        self.send_bytes(&[head.as_bytes(), bytes].concat())?;
        let mut said = Vec::new();
        let status = self.receive(&mut |part| said.extend_from_slice(part))?;
        ensure!(status == 200, "PUT {path}: {status}: {}", String::from_utf8_lossy(&said));
        Ok(())
    }

    /// Asks for events, and gives all of them as text.
    pub(crate) fn follow(&mut self, path: &str, body: &Value) -> Result<String> {
        self.ask_for_events(path, body)?;
        let mut bytes = Vec::new();
        let status = self.receive(&mut |part| bytes.extend_from_slice(part))?;
        let text = String::from_utf8(bytes).context("events are text")?;
        ensure!(status == 200, "POST {path}: {status}: {text}");
        Ok(text)
    }

    /// Asks for events, and goes away when the first ones are there.
    pub(crate) fn begin_to_follow(mut self, path: &str, body: &Value) -> Result<()> {
        self.ask_for_events(path, body)?;
        self.begin_to_receive(path)
    }

    /// Asks for something long, and goes away when its first bytes are there.
    pub(crate) fn begin_to_read(mut self, path: &str) -> Result<()> {
        self.send("GET", path, None)?;
        self.begin_to_receive(path)
    }

    fn ask_for_events(&mut self, path: &str, body: &Value) -> Result<()> {
        let kept = self.headers.clone();
        self.headers += "accept: text/event-stream\r\n";
        let sent = self.send("POST", path, Some(body));
        self.headers = kept;
        sent
    }

    fn begin_to_receive(&mut self, path: &str) -> Result<()> {
        let (status, _) = self.head()?;
        ensure!(status == 200, "{path}: {status}");
        ensure!(!self.line()?.is_empty(), "{path}: nothing comes");
        Ok(())
    }

    fn send(&mut self, method: &str, path: &str, body: Option<&Value>) -> Result<()> {
        let request = self.request(method, path, body.map(Value::to_string).as_deref());
        self.send_bytes(&request)
    }

    fn request(&self, method: &str, path: &str, body: Option<&str>) -> Vec<u8> {
        let (headers, body) = (&self.headers, body.unwrap_or_default());
        let length = body.len();
        format!("{method} {path} HTTP/1.1\r\n{headers}content-length: {length}\r\n\r\n{body}")
            .into()
    }

    fn send_bytes(&mut self, request: &[u8]) -> Result<()> {
        self.stream.get_mut().write_all(request).context("cannot ask the server")
    }

    fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> Result<u16> {
        let (status, body) = self.head()?;
        match body {
            Body::Length(length) => self.take(length, take)?,
            Body::Chunked => loop {
                let line = self.line()?;
                let length = usize::from_str_radix(line.trim(), 16).context("no chunk")?;
                self.take(length, take)?;
                self.line()?;
                if length == 0 {
                    break;
                }
            },
        }
        Ok(status)
    }

    fn head(&mut self) -> Result<(u16, Body)> {
        let line = self.line()?;
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.with_context(|| format!("no answer: {line:?}"))?;
        let mut body = Body::Length(0);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            let Some((name, value)) = line.trim().split_once(':') else { break };
            match name {
                "content-length" => body = Body::Length(value.trim().parse()?),
                "transfer-encoding" => body = Body::Chunked,
                _ => {}
            }
        }
        Ok((status, body))
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            bail!("the server has ended the connection");
        }
        Ok(line)
    }

    fn take(&mut self, mut length: usize, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        while length > 0 {
            let here = self.stream.fill_buf()?;
            ensure!(!here.is_empty(), "the answer was broken off");
            let count = here.len().min(length);
            take(&here[..count]);
            self.stream.consume(count);
            length -= count;
        }
        Ok(())
    }
}
