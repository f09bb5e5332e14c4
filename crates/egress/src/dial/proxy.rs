//! Asking a proxy to connect: CONNECT of HTTP, and SOCKS5.

use crate::control::Sensitive;
use crate::host::Host;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::io;
use std::net::IpAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zeroize::Zeroizing;

/// How long a proxy may take to connect.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longest head of an answer to CONNECT.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Why a proxy did not connect.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// It could not be connected to.
    #[error("the proxy could not be connected to")]
    Unreachable(#[source] io::Error),
    /// The connection to it failed.
    #[error("the proxy broke off")]
    Broken(#[source] io::Error),
    /// It said something that is no answer.
    #[error("the proxy's answer is not understood")]
    Garbled,
    /// It wants a login, or another one.
    #[error("the proxy does not take the login")]
    Login,
    /// It refused, or could not.
    #[error("the proxy answers {0}")]
    Refused(String),
}

/// Has a proxy of HTTP connect.
///
/// Source: RFC 9110, section 9.3.6.
pub(super) async fn http(
    stream: TcpStream,
    to: &Host,
    port: u16,
    login: Option<&Sensitive>,
) -> Result<TcpStream, ProxyError> {
    bounded(http_connect(stream, to, port, login)).await
}

/// Has a proxy that speaks SOCKS5 connect. It is given the name, and looks it up itself.
///
/// Source: RFC 1928, RFC 1929.
pub(super) async fn socks5(
    stream: TcpStream,
    to: &Host,
    port: u16,
    login: Option<&Sensitive>,
) -> Result<TcpStream, ProxyError> {
    bounded(socks5_connect(stream, to, port, login)).await
}

async fn bounded(
    connecting: impl Future<Output = Result<TcpStream, ProxyError>>,
) -> Result<TcpStream, ProxyError> {
    timeout(PATIENCE, connecting)
        .await
        .unwrap_or_else(|elapsed| Err(ProxyError::Broken(elapsed.into())))
}

async fn http_connect(
    mut stream: TcpStream,
    to: &Host,
    port: u16,
    login: Option<&Sensitive>,
) -> Result<TcpStream, ProxyError> {
    let authority = format!("{to}:{port}");
    let mut head = Zeroizing::new(format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n"));
    if let Some(login) = login {
        let encoded = Zeroizing::new(STANDARD.encode(login.reveal()));
        *head += "Proxy-Authorization: Basic ";
        *head += &encoded;
        *head += "\r\n";
    }
    *head += "\r\n";
    stream.write_all(head.as_bytes()).await.map_err(ProxyError::Broken)?;
    // Byte by byte: what comes behind the head is the host's.
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() == HEAD_BYTES_MAX {
            return Err(ProxyError::Garbled);
        }
        answer.push(stream.read_u8().await.map_err(ProxyError::Broken)?);
    }
    let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let version = words.next().unwrap_or_default();
    let status = words.next().and_then(|word| std::str::from_utf8(word).ok()).unwrap_or_default();
    match (version.starts_with(b"HTTP/1."), status) {
        (true, "407") => Err(ProxyError::Login),
        (true, status) if status.len() == 3 && status.starts_with('2') => Ok(stream),
        (true, status) if status.len() == 3 && status.bytes().all(|b| b.is_ascii_digit()) => {
            Err(ProxyError::Refused(status.to_owned()))
        }
        _ => Err(ProxyError::Garbled),
    }
}

const VERSION: u8 = 5;
const NO_LOGIN: u8 = 0;
const LOGIN: u8 = 2;
const LOGIN_VERSION: u8 = 1;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const DOMAIN: u8 = 3;
const IPV6: u8 = 4;

async fn socks5_connect(
    mut stream: TcpStream,
    to: &Host,
    port: u16,
    login: Option<&Sensitive>,
) -> Result<TcpStream, ProxyError> {
    let method = if login.is_some() { LOGIN } else { NO_LOGIN };
    send(&mut stream, &[VERSION, 1, method]).await?;
    match (take::<2>(&mut stream).await?, login) {
        ([VERSION, NO_LOGIN], None) => {}
        ([VERSION, LOGIN], Some(login)) => log_in(&mut stream, login).await?,
        ([VERSION, _], _) => return Err(ProxyError::Login),
        _ => return Err(ProxyError::Garbled),
    }
    let mut request = vec![VERSION, CONNECT, 0];
    match to {
        Host::Name(name) => {
            let name = name.as_str().as_bytes();
            request.extend([DOMAIN, u8::try_from(name.len()).unwrap_or(u8::MAX)]);
            request.extend(name);
        }
        Host::Address(IpAddr::V4(address)) => {
            request.push(IPV4);
            request.extend(address.octets());
        }
        Host::Address(IpAddr::V6(address)) => {
            request.push(IPV6);
            request.extend(address.octets());
        }
    }
    request.extend(port.to_be_bytes());
    send(&mut stream, &request).await?;
    let [version, reply, _, kind] = take::<4>(&mut stream).await?;
    if version != VERSION {
        return Err(ProxyError::Garbled);
    }
    if reply != 0 {
        return Err(ProxyError::Refused(format!("reply {reply}")));
    }
    let bound = match kind {
        IPV4 => 4,
        IPV6 => 16,
        DOMAIN => usize::from(take::<1>(&mut stream).await?[0]),
        _ => return Err(ProxyError::Garbled),
    };
    let mut rest = vec![0; bound + 2];
    stream.read_exact(&mut rest).await.map_err(ProxyError::Broken)?;
    Ok(stream)
}

async fn log_in(stream: &mut TcpStream, login: &Sensitive) -> Result<(), ProxyError> {
    let (user, password) = login.reveal().split_once(':').unwrap_or((login.reveal(), ""));
    let mut request = Zeroizing::new(vec![LOGIN_VERSION]);
    for part in [user, password] {
        request.push(u8::try_from(part.len()).map_err(|_| ProxyError::Login)?);
        request.extend(part.as_bytes());
    }
    send(stream, &request).await?;
    match take::<2>(stream).await? {
        [_, 0] => Ok(()),
        _ => Err(ProxyError::Login),
    }
}

async fn send(stream: &mut TcpStream, bytes: &[u8]) -> Result<(), ProxyError> {
    stream.write_all(bytes).await.map_err(ProxyError::Broken)
}

async fn take<const N: usize>(stream: &mut TcpStream) -> Result<[u8; N], ProxyError> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await.map_err(ProxyError::Broken)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// Both ends of a connection.
    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connecting = TcpStream::connect(listener.local_addr().unwrap());
        let (ours, theirs) = tokio::join!(connecting, listener.accept());
        (ours.unwrap(), theirs.unwrap().0)
    }

    /// A proxy that says `answers`, each when it has got as many bytes as `takes` says.
    async fn scripted(steps: &'static [(usize, &'static [u8])]) -> (TcpStream, Vec<u8>) {
        let (ours, mut theirs) = pair().await;
        let script = tokio::spawn(async move {
            let mut got = Vec::new();
            for (takes, says) in steps {
                let mut bytes = vec![0; *takes];
                theirs.read_exact(&mut bytes).await.unwrap();
                got.extend(bytes);
                theirs.write_all(says).await.unwrap();
            }
            got
        });
        let name = Host::Name("a.test".parse().unwrap());
        let login = Sensitive::from("ada:pw".to_owned());
        let login = (steps.len() > 2).then_some(&login);
        let stream = socks5(ours, &name, 443, login).await.unwrap();
        (stream, script.await.unwrap())
    }

    #[tokio::test]
    async fn socks_is_given_the_name() {
        let (mut stream, got) = scripted(&[
            (3, b"\x05\x00"),
            (13, b"\x05\x00\x00\x01\x7f\x00\x00\x01\x12\x34and the host"),
        ])
        .await;
        assert_eq!(got, b"\x05\x01\x00\x05\x01\x00\x03\x06a.test\x01\xbb");
        let mut rest = [0; 12];
        stream.read_exact(&mut rest).await.unwrap();
        assert_eq!(&rest, b"and the host");
    }

    #[tokio::test]
    async fn socks_logs_in() {
        let (_, got) =
            scripted(&[(3, b"\x05\x02"), (8, b"\x01\x00"), (13, b"\x05\x00\x00\x03\x01a\x12\x34")])
                .await;
        assert_eq!(got, b"\x05\x01\x02\x01\x03ada\x02pw\x05\x01\x00\x03\x06a.test\x01\xbb");
    }

    #[tokio::test]
    async fn connect_leaves_what_comes_behind_the_head() {
        for (says, fine) in [
            (&b"HTTP/1.1 200 Fine\r\nVia: x\r\n\r\nhello"[..], true),
            (b"HTTP/1.0 200\r\n\r\nhello", true),
            (b"HTTP/1.1 403 No\r\n\r\n", false),
            (b"HTTP/1.1 407 Who\r\n\r\n", false),
            (b"SSH-2.0-x\r\n\r\n", false),
            (b"HTTP/1.1 2000\r\n\r\n", false),
        ] {
            let (ours, mut theirs) = pair().await;
            let served = tokio::spawn(async move {
                theirs.write_all(says).await.unwrap();
                let mut got = vec![0; 1000];
                let length = theirs.read(&mut got).await.unwrap();
                String::from_utf8(got[..length].to_vec()).unwrap()
            });
            let to = Host::Address("::1".parse().unwrap());
            let login = Sensitive::from("ada:pw".to_owned());
            let connected = http(ours, &to, 443, Some(&login)).await;
            let asked = served.await.unwrap();
            assert!(asked.starts_with("CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n"));
            assert!(asked.contains("Basic YWRhOnB3\r\n"), "{asked}");
            match connected {
                Ok(mut stream) => {
                    assert!(fine);
                    let mut rest = [0; 5];
                    stream.read_exact(&mut rest).await.unwrap();
                    assert_eq!(&rest, b"hello");
                }
                Err(error) => assert!(!fine, "{error}"),
            }
        }
    }
}
