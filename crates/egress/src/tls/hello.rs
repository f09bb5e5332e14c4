//! The first bytes of a connection: is it TLS, and for whom.

use crate::name::Name;
use bytes::{Bytes, BytesMut};
use rustls::server::Acceptor;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::{Instant, timeout_at};

/// How a record of a handshake begins: its kind, and the first byte of every version.
const HANDSHAKE: [u8; 2] = [0x16, 0x03];

/// What is waited for, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct HelloLimits {
    /// Most bytes until the hello of a client is whole.
    pub bytes_max: usize,
    /// For the first byte; where the server speaks first, it never comes.
    pub silent_for: Duration,
    /// For the whole hello.
    pub within: Duration,
}

impl Default for HelloLimits {
    fn default() -> Self {
        Self {
            bytes_max: 16 * 1024,
            silent_for: Duration::from_secs(10),
            within: Duration::from_secs(10),
        }
    }
}

/// How a connection begins. Its bytes are kept: nothing is lost by having looked.
#[derive(Debug, PartialEq, Eq)]
pub enum First {
    /// As TLS does.
    Tls {
        /// For whom; a client that names nobody, or an address, has none.
        server_name: Option<Name>,
        /// All that was read.
        bytes: Bytes,
    },
    /// In another way: HTTP, or what is not known here.
    Other {
        /// All that was read, at least a byte.
        bytes: Bytes,
    },
    /// The client said nothing; perhaps it waits for the server to.
    Silent,
}

/// Why it is not known how a connection begins.
#[derive(Debug, thiserror::Error)]
pub enum FirstError {
    /// It begins as TLS does and goes on as it never does.
    #[error("the connection begins like TLS, but is malformed: {0}")]
    Malformed(String),
    /// The hello of the client is larger than any that is sensible.
    #[error("the first message of TLS is too large")]
    TooLarge,
    /// The hello of the client did not become whole in time.
    #[error("the first message of TLS took too long")]
    TooSlow,
    /// The client went before it had said enough.
    #[error("the connection was closed before its first message was whole")]
    Closed,
    /// Reading failed.
    #[error("the connection broke off")]
    Io(#[source] io::Error),
}

/// Reads as much of a stream as tells how it begins.
///
/// # Errors
///
/// See [`FirstError`]: such a connection is to be refused.
pub async fn first(
    stream: &mut (impl AsyncRead + Unpin),
    limits: &HelloLimits,
) -> Result<First, FirstError> {
    let start = Instant::now();
    let mut looked = Hello::default();
    loop {
        let patience = if looked.is_empty() { limits.silent_for } else { limits.within };
        let room = limits.bytes_max.saturating_sub(looked.bytes.len());
        if room == 0 {
            return Err(FirstError::TooLarge);
        }
        let mut piece = BytesMut::with_capacity(room.min(4096));
        let mut limited = (&mut *stream).take(room.min(4096) as u64);
        let length = match timeout_at(start + patience, limited.read_buf(&mut piece)).await {
            Err(_) if looked.is_empty() => return Ok(First::Silent),
            Err(_) => return Err(FirstError::TooSlow),
            Ok(Err(error)) => return Err(FirstError::Io(error)),
            Ok(Ok(length)) => length,
        };
        if length == 0 {
            return Err(FirstError::Closed);
        }
        if let Some(first) = looked.add(&piece)? {
            return Ok(first);
        }
    }
}

/// What was read so far.
#[derive(Default)]
pub(crate) struct Hello {
    bytes: BytesMut,
    acceptor: Acceptor,
}

impl Hello {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes more bytes; answers when they are enough.
    pub(crate) fn add(&mut self, piece: &[u8]) -> Result<Option<First>, FirstError> {
        self.bytes.extend_from_slice(piece);
        let begins = self.bytes.len().min(HANDSHAKE.len());
        if self.bytes[..begins] != HANDSHAKE[..begins] {
            return Ok(Some(First::Other { bytes: self.taken() }));
        }
        let malformed = |error: String| FirstError::Malformed(error);
        let mut rest = piece;
        while !rest.is_empty() {
            self.acceptor.read_tls(&mut rest).map_err(|error| malformed(error.to_string()))?;
            let accepted =
                self.acceptor.accept().map_err(|(error, _)| malformed(error.to_string()))?;
            let Some(accepted) = accepted else { continue };
            let server_name = accepted.client_hello().server_name().map(str::parse);
            let server_name = server_name.transpose();
            let server_name = server_name.map_err(|_| malformed("no host name".to_owned()))?;
            return Ok(Some(First::Tls { server_name, bytes: self.taken() }));
        }
        Ok(None)
    }

    fn taken(&mut self) -> Bytes {
        self.bytes.split().freeze()
    }
}

/// Tells how bytes begin that come in pieces; for the fuzzer.
///
/// # Errors
///
/// As [`first`], without what takes time.
pub fn first_of<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<First, FirstError> {
    let mut looked = Hello::default();
    for piece in pieces.into_iter().filter(|piece| !piece.is_empty()) {
        if let Some(first) = looked.add(piece)? {
            return Ok(first);
        }
    }
    Err(FirstError::Closed)
}
