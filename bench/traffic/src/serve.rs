//! A small internet: it prints where its names are looked up, and its ports.

use crate::{BULK, DOWNLOAD, PIECE, PING, SITE, UPLOAD};
use anyhow::{Context as _, Result};
use atoll_testkit::internet::Internet;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// What a request has to bring along; whoever measures gives it to the gateway.
const SECRET: &[u8] = b"the-real-value";

/// Answers without it and with it. The second one is what the load waits for.
const ANSWERS: [&[u8]; 2] = [
    b"HTTP/1.1 403 no\r\ncontent-length: 2\r\n\r\nno",
    b"HTTP/1.1 200 ok\r\ncontent-length: 2\r\n\r\nok",
];

const HEAD_MAX: usize = 16 << 10;

/// Serves until nobody holds the other end of the standard input.
pub(crate) async fn run(certificate: &str) -> Result<()> {
    let internet = Internet::new();
    for name in [BULK, SITE] {
        internet.name(name, &["127.0.0.1"]);
    }
    std::fs::write(certificate, internet.certificate()).context("cannot write the certificate")?;
    let (bulk, site) = (listener().await?, listener().await?);
    let (bulk_port, site_port) = (bulk.local_addr()?.port(), site.local_addr()?.port());
    let acceptor = TlsAcceptor::from(internet.tls(&[SITE]));
    tokio::spawn(async move {
        while let Ok((stream, _)) = bulk.accept().await {
            tokio::spawn(async move { serve_bulk(stream).await.ok() });
        }
    });
    tokio::spawn(async move {
        while let Ok((stream, _)) = site.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                stream.set_nodelay(true)?;
                converse(acceptor.accept(stream).await?).await
            });
        }
    });
    println!("{} {bulk_port} {site_port}", internet.dns());
    // The other thread waits, this one serves.
    let (told, end) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        io::copy(&mut io::stdin(), &mut io::sink()).ok();
        told.send(()).ok();
    });
    Ok(end.await?)
}

async fn listener() -> Result<TcpListener> {
    TcpListener::bind("127.0.0.1:0").await.context("no port")
}

/// A connection that begins with a record of TLS, and is plain behind it.
async fn serve_bulk(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut head = [0; 5];
    stream.read_exact(&mut head).await?;
    let mut hello = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
    stream.read_exact(&mut hello).await?;
    stream.write_u8(PING).await?;
    let mut piece = vec![0; PIECE];
    loop {
        match stream.read_u8().await? {
            DOWNLOAD => {
                let mut left = usize::try_from(stream.read_u64().await?).unwrap_or(usize::MAX);
                while left > 0 {
                    left -= stream.write(&piece[..left.min(PIECE)]).await?;
                }
            }
            UPLOAD => {
                let mut left = usize::try_from(stream.read_u64().await?).unwrap_or(usize::MAX);
                while left > 0 {
                    match stream.read(&mut piece[..left.min(PIECE)]).await? {
                        0 => return Ok(()),
                        length => left -= length,
                    }
                }
                stream.write_u8(UPLOAD).await?;
            }
            _ => stream.write_u8(PING).await?,
        }
    }
}

/// Requests without a body, one after the other.
async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await? {
            0 => return Ok(()),
            length => head.extend(&piece[..length]),
        }
        if head.ends_with(b"\r\n\r\n") {
            let has_secret = head.windows(SECRET.len()).any(|part| part == SECRET);
            stream.write_all(ANSWERS[usize::from(has_secret)]).await?;
            stream.flush().await?;
            head.clear();
        }
        if head.len() > HEAD_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}
