//! What happens to sandboxes, as it happens.

use crate::body::Upload;
use crate::client::{Client, Path};
use crate::error::ClientError;
use crate::sse::{ServerEvent, ServerEvents};
use atoll_api::sandbox::Event;
use hyper::{Method, header};
use serde::Deserialize;

/// What a stream of events tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// Something happened.
    Event(Event),
    /// So many events are not kept any more.
    Missed(u64),
    /// The server ends the stream; whoever comes back with the last number misses nothing.
    End(String),
}

/// Events as they come.
pub struct EventStream(ServerEvents);

impl Client {
    /// Follows what happens: to one sandbox or to all, behind the event of a number or
    /// from now on.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn follow_events(
        &self,
        after: Option<u64>,
        sandbox: Option<&str>,
    ) -> Result<EventStream, ClientError> {
        let path = Path::of(&["events"]).with_some("after", after).with_some("sandbox", sandbox);
        let request = self.request(Method::GET, &path).header(header::ACCEPT, "text/event-stream");
        let (_, download) = self.send(request, Upload::empty()).await?;
        Ok(EventStream(ServerEvents::new(download)))
    }
}

impl EventStream {
    /// The next one; nothing where the stream broke off at an event's end.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn next(&mut self) -> Result<Option<Told>, ClientError> {
        self.0.next_told(read).await
    }
}

fn read(event: &ServerEvent) -> Result<Option<Told>, ClientError> {
    #[derive(Deserialize)]
    struct Missed {
        count: u64,
    }
    #[derive(Deserialize)]
    struct End {
        reason: String,
    }
    let told = match event.kind.as_str() {
        "" => serde_json::from_str(&event.data).map(Told::Event),
        "missed" => serde_json::from_str(&event.data).map(|Missed { count }| Told::Missed(count)),
        "end" => serde_json::from_str(&event.data).map(|End { reason }| Told::End(reason)),
        // Of a newer server.
        _ => return Ok(None),
    };
    told.map(Some).map_err(|error| ClientError::NotUnderstood {
        reason: format!("an event that is not as it should be: {error}"),
    })
}
