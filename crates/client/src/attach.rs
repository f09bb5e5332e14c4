//! An exec, followed and fed over a WebSocket.

use crate::body::Upload;
use crate::client::{Client, Path};
use crate::error::ClientError;
use atoll_api::exec::{AttachAction, AttachEvent, Stream};
use atoll_api::id::ExecId;
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper::{Method, StatusCode, header};
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

/// The protocol that is spoken.
const PROTOCOL: &str = "atoll.v1";

/// Largest message that is taken.
const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// How long a server may say nothing. It shows that it lives every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Bytes in front of output: the stream, and the offset.
const HEAD_BYTES: usize = 9;

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// What is heard of an exec.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// It printed something.
    Output {
        /// To which stream.
        stream: Stream,
        /// Offset of the first byte.
        offset: u64,
        /// What.
        bytes: Bytes,
    },
    /// Something else.
    Event(Box<AttachEvent>),
}

/// The half that hears.
pub struct Hearing(SplitStream<Socket>);

/// The half that speaks.
pub struct Speaking(SplitSink<Socket, Message>);

impl Client {
    /// Attaches to an exec, whose streams are told from these offsets on.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn attach(
        &self,
        sandbox: &str,
        exec: &ExecId,
        stdout: u64,
        stderr: u64,
    ) -> Result<(Hearing, Speaking), ClientError> {
        let path = Path::sandbox(sandbox, &["execs", &exec.to_string(), "attach"])
            .with("stdout", stdout)
            .with("stderr", stderr);
        let key = generate_key();
        let request = self
            .request(Method::GET, &path)
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_VERSION, "13")
            .header(header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL)
            .header(header::SEC_WEBSOCKET_KEY, &key);
        let upgraded = self.upgrade(request, &derive_accept_key(key.as_bytes())).await?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX));
        let upgraded = TokioIo::new(upgraded);
        let socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await;
        let (speaking, hearing) = socket.split();
        Ok((Hearing(hearing), Speaking(speaking)))
    }

    async fn upgrade(
        &self,
        request: hyper::http::request::Builder,
        accept: &str,
    ) -> Result<Upgraded, ClientError> {
        let (head, download) = self.send(request, Upload::empty()).await?;
        let accepted = head.headers().get(header::SEC_WEBSOCKET_ACCEPT);
        let is_one = head.status() == StatusCode::SWITCHING_PROTOCOLS
            && accepted.is_some_and(|value| value.as_bytes() == accept.as_bytes());
        if !is_one {
            return Err(ClientError::NotUnderstood {
                reason: format!("{} in place of a WebSocket", head.status()),
            });
        }
        download.upgrade(head).await
    }
}

impl Hearing {
    /// What comes next; nothing where the server closed the connection. Dropping this
    /// loses none.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn next(&mut self) -> Result<Option<Heard>, ClientError> {
        let broken = ClientError::broken("an exec was followed");
        loop {
            let silent = |_| broken(format!("nothing came for {} s", SILENCE_MAX.as_secs()).into());
            let message = match timeout(SILENCE_MAX, self.0.next()).await.map_err(silent)? {
                Some(message) => message.map_err(|error| broken(error.into()))?,
                None => return Ok(None),
            };
            match message {
                Message::Binary(bytes) => return output(bytes).map(Some),
                Message::Text(text) => {
                    // Of a newer server, if it is not known.
                    if let Ok(event) = serde_json::from_str(&text) {
                        return Ok(Some(Heard::Event(Box::new(event))));
                    }
                }
                Message::Close(_) => return Ok(None),
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }
}

fn output(bytes: Bytes) -> Result<Heard, ClientError> {
    let wrong = |reason: &str| ClientError::NotUnderstood { reason: reason.to_owned() };
    let (head, _) = bytes
        .split_first_chunk::<HEAD_BYTES>()
        .ok_or_else(|| wrong("output without a stream and an offset"))?;
    let [stream, offset @ ..] = *head;
    let stream = match stream {
        1 => Stream::Stdout,
        2 => Stream::Stderr,
        _ => return Err(wrong("output of a stream that there is not")),
    };
    let offset = u64::from_be_bytes(offset);
    Ok(Heard::Output { stream, offset, bytes: bytes.slice(HEAD_BYTES..) })
}

impl Speaking {
    /// Feeds its standard input.
    ///
    /// # Errors
    /// The connection is broken then, and it is not known how much of this arrived.
    pub async fn feed(&mut self, bytes: Bytes) -> Result<(), ClientError> {
        self.say(Message::Binary(bytes)).await
    }

    /// Asks for something.
    ///
    /// # Errors
    /// As [`Speaking::feed`].
    pub async fn act(&mut self, action: &AttachAction) -> Result<(), ClientError> {
        let text = serde_json::to_string(action)
            .map_err(|error| ClientError::Request { reason: error.to_string() })?;
        self.say(Message::Text(text.into())).await
    }

    async fn say(&mut self, message: Message) -> Result<(), ClientError> {
        let broken = ClientError::broken("an exec was fed");
        self.0.send(message).await.map_err(|error| broken(error.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_has_a_stream_and_an_offset() {
        let mut bytes = vec![2, 0, 0, 0, 0, 0, 0, 1, 0];
        bytes.extend_from_slice(b"text");
        let heard = output(bytes.into()).unwrap();
        let expected = Heard::Output {
            stream: Stream::Stderr,
            offset: 256,
            bytes: Bytes::from_static(b"text"),
        };
        assert_eq!(heard, expected);
        assert!(output(Bytes::from_static(&[1, 0, 0])).is_err());
        assert!(output(Bytes::from_static(&[3, 0, 0, 0, 0, 0, 0, 0, 0])).is_err());
    }
}
