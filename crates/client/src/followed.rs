//! An exec, followed as events.

use crate::attach::Heard;
use crate::body::Upload;
use crate::client::{Client, Path, json};
use crate::error::ClientError;
use crate::sse::{ServerEvent, ServerEvents};
use atoll_api::exec::{AttachEvent, OutputEvent, StartExec};
use atoll_api::id::ExecId;
use hyper::{Method, header};
use serde::de::DeserializeOwned;

/// What comes of an exec, as it comes.
pub struct Followed(ServerEvents);

/// What events are asked for by.
const EVENTS: &str = "text/event-stream";

impl Client {
    /// Starts a command and follows it from its first byte on: nothing that it prints is
    /// dropped for as long as this is followed.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn start_followed(
        &self,
        sandbox: &str,
        wanted: &StartExec,
    ) -> Result<Followed, ClientError> {
        let path = Path::sandbox(sandbox, &["execs"]);
        let request = self.request(Method::POST, &path).header(header::ACCEPT, EVENTS);
        let (request, body) = json(request, wanted)?;
        self.send(request, body).await.map(|(_, download)| Followed(ServerEvents::new(download)))
    }

    /// Follows an exec from these offsets of its streams on; to its end, or to the end of
    /// what there is.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn follow_exec(
        &self,
        sandbox: &str,
        exec: &ExecId,
        stdout: u64,
        stderr: u64,
        follow: bool,
    ) -> Result<Followed, ClientError> {
        let path = Path::sandbox(sandbox, &["execs", &exec.to_string(), "events"])
            .with("stdout", stdout)
            .with("stderr", stderr)
            .with("follow", follow);
        let request = self.request(Method::GET, &path).header(header::ACCEPT, EVENTS);
        let (_, download) = self.send(request, Upload::empty()).await?;
        Ok(Followed(ServerEvents::new(download)))
    }
}

impl Followed {
    /// What comes next; nothing where the stream broke off at an event's end. Dropping
    /// this loses none.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn next(&mut self) -> Result<Option<Heard>, ClientError> {
        self.0.next_told(read).await
    }
}

fn read(event: &ServerEvent) -> Result<Option<Heard>, ClientError> {
    fn data<T: DeserializeOwned>(event: &ServerEvent) -> Result<T, ClientError> {
        serde_json::from_str(&event.data).map_err(|error| ClientError::NotUnderstood {
            reason: format!("an event that is not as it should be: {error}"),
        })
    }
    let event = match event.kind.as_str() {
        "output" => {
            let OutputEvent { stream, offset, output } = data(event)?;
            let bytes = output.into_bytes().into();
            return Ok(Some(Heard::Output { stream, offset, bytes }));
        }
        "started" => AttachEvent::Started { exec: data(event)? },
        "dropped" => AttachEvent::Dropped { dropped: data(event)? },
        "ended" => AttachEvent::Ended { exec: data(event)? },
        "lost" => AttachEvent::Lost { error: data(event)? },
        "end" => AttachEvent::End { reason: data::<atoll_api::exec::End>(event)?.reason },
        // Of a newer server.
        _ => return Ok(None),
    };
    Ok(Some(Heard::Event(Box::new(event))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_api::exec::{EndReason, Stream};

    #[test]
    fn events_are_read_and_unknown_ones_skipped() {
        let event = |kind: &str, data: &str| {
            let (kind, data) = (kind.to_owned(), data.to_owned());
            read(&ServerEvent { kind, data, id: None })
        };
        let heard = event("output", r#"{"stream":"stderr","offset":3,"base64":"/w=="}"#).unwrap();
        let bytes = bytes::Bytes::from_static(b"\xff");
        assert_eq!(heard, Some(Heard::Output { stream: Stream::Stderr, offset: 3, bytes }));
        let heard = event("end", r#"{"reason":"shutdown"}"#).unwrap().unwrap();
        let end = AttachEvent::End { reason: EndReason::Shutdown };
        assert_eq!(heard, Heard::Event(Box::new(end)));
        assert_eq!(event("news", "").unwrap(), None);
        assert!(event("ended", "{}").is_err());
    }
}
