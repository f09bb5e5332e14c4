use super::hello::first_of;
use super::*;
use crate::host::Host;
use bytes::Bytes;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

fn host(text: &str) -> Host {
    Host::from_authority(text).unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// What a client of rustls says first.
fn hello(name: &str) -> Vec<u8> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name: ServerName<'static> = name.to_owned().try_into().unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// The same in records of `size` bytes, as some clients cut it.
fn in_records(hello: &[u8], size: usize) -> Vec<u8> {
    let records = hello[5..].chunks(size);
    let record = |piece: &[u8]| {
        let length = u16::try_from(piece.len()).unwrap().to_be_bytes();
        [&hello[..3], &length, piece].concat()
    };
    records.flat_map(record).collect()
}

#[test]
fn a_hello_is_read_in_pieces_of_any_size() {
    let hello = hello("Pypi.org");
    for bytes in [hello.clone(), in_records(&hello, 100)] {
        for size in [1, 5, 517, 1448, bytes.len()] {
            let first = first_of(bytes.chunks(size)).unwrap();
            let First::Tls { server_name, bytes: kept } = first else { panic!("{first:?}") };
            assert_eq!(server_name.unwrap().as_str(), "pypi.org");
            assert!(bytes.starts_with(&kept));
        }
    }
    let first = first_of([&*self::hello("10.1.2.3")]).unwrap();
    assert!(matches!(first, First::Tls { server_name: None, .. }));
}

#[test]
fn what_is_no_hello_is_told_apart() {
    for other in ["GET / HTTP/1.1\r\n", "SSH-2.0-x", "\x16\x02", "\0\0\0\x08", "\x15\x03"] {
        let first = first_of([other.as_bytes()]).unwrap();
        assert_eq!(first, First::Other { bytes: Bytes::from(other) }, "{other:?}");
    }
    let hello = hello("pypi.org");
    for (at, byte) in [(5, 2), (6, 0xff), (1, 3)] {
        let mut bytes = hello.clone();
        bytes[at] = byte;
        let outcome = first_of([&*bytes]);
        let is_intact = at == 1;
        assert_eq!(outcome.is_ok(), is_intact, "{at} {outcome:?}");
    }
    let cut = first_of([&hello[..hello.len() - 1]]);
    assert!(matches!(cut, Err(FirstError::Closed)), "{cut:?}");
}

#[test]
fn nothing_is_waited_for_without_end() {
    runtime().block_on(async {
        let limits = HelloLimits { bytes_max: 600, ..HelloLimits::default() };
        let (mut near, mut far) = duplex(64 * 1024);
        assert_eq!(first(&mut near, &limits).await.unwrap(), First::Silent);
        // Still there, for a server that speaks first.
        far.write_all(&hello("pypi.org")[..100]).await.unwrap();
        let slow = first(&mut near, &limits).await;
        assert!(matches!(slow, Err(FirstError::TooSlow)), "{slow:?}");

        let (mut near, mut far) = duplex(64 * 1024);
        // A record that announces 16 KiB, and goes on and on.
        far.write_all(&[0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc]).await.unwrap();
        far.write_all(&[0; 2000]).await.unwrap();
        let large = first(&mut near, &limits).await;
        assert!(matches!(large, Err(FirstError::TooLarge)), "{large:?}");

        let (mut near, far) = duplex(64);
        drop(far);
        let closed = first(&mut near, &limits).await;
        assert!(matches!(closed, Err(FirstError::Closed)), "{closed:?}");
    });
}

/// Connects to a host through TLS that was opened, trusting `roots`.
async fn connect(
    authority: &Authority,
    asked: &Host,
    served: &Host,
    roots: &str,
    offer: Offer,
) -> (Result<bool, OpenError>, Result<(String, bool), ConnectError>) {
    let (near, far) = duplex(64 * 1024);
    let upstream = Upstream::new(roots.as_bytes().to_vec());
    let server = async {
        let mut stream = near;
        let First::Tls { bytes, .. } = first(&mut stream, &HelloLimits::default()).await.unwrap()
        else {
            panic!("no TLS")
        };
        let mut opened = open(Replayed::new(bytes, stream), authority, served).await?;
        opened.stream.write_all(b"hello").await.unwrap();
        opened.stream.shutdown().await.unwrap();
        Ok(opened.is_http2)
    };
    let client = async {
        let (mut stream, is_http2) = upstream.connect(far, asked, offer).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        Ok((text, is_http2))
    };
    tokio::join!(server, client)
}

#[test]
fn who_trusts_the_authority_trusts_each_host_and_nobody_else_does() {
    runtime().block_on(async {
        let authority = Authority::generate("sandbox one").unwrap();
        let trusted = authority.certificate_pem();
        let other = Authority::generate("sandbox one").unwrap().certificate_pem();
        let (pypi, address) = (host("pypi.org"), host("[fd00::1]"));
        let long = host(&format!("{}.example", "a.".repeat(100).trim_end_matches('.')));
        for host in [&pypi, &address, &long] {
            let (server, client) = connect(&authority, host, host, &trusted, Offer::Any).await;
            assert_eq!(client.unwrap(), ("hello".to_owned(), true), "{host}");
            assert!(server.unwrap());
        }
        let (server, client) = connect(&authority, &pypi, &pypi, &trusted, Offer::Http1).await;
        assert!(!client.unwrap().1 && !server.unwrap());

        let (_, client) = connect(&authority, &pypi, &pypi, &other, Offer::Any).await;
        assert!(matches!(client, Err(ConnectError::Handshake(_))), "{client:?}");
        let (_, client) = connect(&authority, &host("evil.org"), &pypi, &trusted, Offer::Any).await;
        assert!(matches!(client, Err(ConnectError::Handshake(_))), "{client:?}");
        let nobody = Upstream::new(b"no certificate".to_vec());
        let none = nobody.connect(duplex(1).0, &pypi, Offer::Any).await;
        assert!(matches!(none, Err(ConnectError::NoRoots)));
    });
}

#[test]
fn what_is_kept_of_an_authority_is_the_same_one() {
    let authority = Authority::generate("sandbox \u{fc}").unwrap();
    let again = Authority::from_pem(&authority.to_pem()).unwrap();
    assert_eq!(again.to_pem(), authority.to_pem());
    runtime().block_on(async {
        let pypi = host("pypi.org");
        let trusted = authority.certificate_pem();
        let (_, client) = connect(&again, &pypi, &pypi, &trusted, Offer::Any).await;
        client.unwrap();
    });
    let kept = authority.to_pem();
    let (certificate, key) = kept.split_at(kept.find("-----BEGIN PRIVATE").unwrap());
    for cut in ["", certificate, key, &kept[8..]] {
        assert!(matches!(Authority::from_pem(cut), Err(AuthorityError::Kept { .. })));
    }
    assert!(!format!("{authority:?}").contains("PRIVATE"));
}

#[test]
fn certificates_are_kept_and_not_without_end() {
    let authority = Authority::generate("one").unwrap();
    let first = authority.server(&host("a.example")).unwrap();
    assert!(Arc::ptr_eq(&first, &authority.server(&host("a.example")).unwrap()));
    for number in 0..256 {
        authority.server(&host(&format!("n{number}.example"))).unwrap();
    }
    assert!(!Arc::ptr_eq(&first, &authority.server(&host("a.example")).unwrap()));
}

#[test]
fn a_stream_gives_what_was_read_once_more() {
    runtime().block_on(async {
        let (near, mut far) = duplex(64);
        far.write_all(b" world").await.unwrap();
        far.shutdown().await.unwrap();
        let mut replayed = Replayed::new(Bytes::from_static(b"hello"), near);
        let mut text = String::new();
        let within = Duration::from_secs(1);
        tokio::time::timeout(within, replayed.read_to_string(&mut text)).await.unwrap().unwrap();
        assert_eq!(text, "hello world");
    });
}
