//! Proxies, through which hosts of a test's own internet are reached.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use base64::Engine as _;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

/// A proxy by CONNECT and by SOCKS5, at one port, that wants to know who comes.
#[derive(Debug, Clone)]
pub struct Proxy {
    login: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// One that lets in who has this login, `USER:PASSWORD`.
    #[must_use]
    pub fn new(login: &str) -> Self {
        Self { login: login.to_owned(), asked: Arc::default() }
    }

    /// Where it was asked to connect to, as `HOST:PORT`.
    ///
    /// # Panics
    ///
    /// If it has panicked.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// Serves a connection. Whatever it is asked for is on this machine.
    pub fn serve(&self, mut client: TcpStream) {
        // Who breaks off sees that it does not go on.
        let Ok(host) = self.meet(&mut client) else { return };
        let (mut from, mut to) = (client.try_clone().unwrap(), host.try_clone().unwrap());
        let up = std::thread::spawn(move || {
            io::copy(&mut from, &mut to).ok();
            to.shutdown(std::net::Shutdown::Write).ok();
        });
        let mut host = host;
        io::copy(&mut host, &mut client).ok();
        client.shutdown(std::net::Shutdown::Write).ok();
        up.join().unwrap();
    }

    fn meet(&self, client: &mut TcpStream) -> io::Result<TcpStream> {
        match take::<1>(client)? {
            [5] => self.socks(client),
            [first] => self.connect(client, first),
        }
    }

    fn dial(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        self.asked.lock().unwrap().push(format!("{host}:{port}"));
        TcpStream::connect(("127.0.0.1", port))
    }

    /// RFC 9110, section 9.3.6.
    fn connect(&self, client: &mut TcpStream, first: u8) -> io::Result<TcpStream> {
        let mut head = vec![first];
        while !head.ends_with(b"\r\n\r\n") {
            head.extend(take::<1>(client)?);
        }
        let head = String::from_utf8(head).unwrap();
        let login = base64::engine::general_purpose::STANDARD.encode(&self.login);
        if !head.contains(&format!("Basic {login}\r\n")) {
            client.write_all(b"HTTP/1.1 407 Who\r\ncontent-length: 0\r\n\r\n")?;
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let (host, port) = head.split(' ').nth(1).unwrap().rsplit_once(':').unwrap();
        let connected = self.dial(host, port.parse().unwrap())?;
        client.write_all(b"HTTP/1.1 200 Fine\r\n\r\n")?;
        Ok(connected)
    }

    /// RFC 1928 and RFC 1929.
    fn socks(&self, client: &mut TcpStream) -> io::Result<TcpStream> {
        let [ways] = take::<1>(client)?;
        let mut offered = vec![0; usize::from(ways)];
        client.read_exact(&mut offered)?;
        if !offered.contains(&2) {
            client.write_all(&[5, 0xff])?;
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        client.write_all(&[5, 2])?;
        take::<1>(client)?;
        let login = format!("{}:{}", text(client)?, text(client)?);
        client.write_all(&[1, u8::from(login != self.login)])?;
        if login != self.login {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let [_, _, _, kind] = take::<4>(client)?;
        let host = match kind {
            1 => std::net::Ipv4Addr::from(take::<4>(client)?).to_string(),
            _ => text(client)?,
        };
        let port = u16::from_be_bytes(take::<2>(client)?);
        let connected = self.dial(&host, port)?;
        client.write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 0])?;
        Ok(connected)
    }
}

fn take<const N: usize>(stream: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn text(stream: &mut TcpStream) -> io::Result<String> {
    let [length] = take::<1>(stream)?;
    let mut bytes = vec![0; usize::from(length)];
    stream.read_exact(&mut bytes)?;
    Ok(String::from_utf8(bytes).unwrap())
}
