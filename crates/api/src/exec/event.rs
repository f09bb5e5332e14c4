//! What is said while an exec is followed.

use super::{Exec, Output, Signal, Stream, Target};
use crate::error::ApiError;
use serde::{Deserialize, Serialize};

/// Something was printed: the event `output`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OutputEvent {
    /// To which stream.
    pub stream: Stream,
    /// Offset of the first byte.
    pub offset: u64,
    /// The bytes.
    #[serde(flatten)]
    pub output: Output,
}

/// Bytes are not kept any more: the event `dropped`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Dropped {
    /// Of which stream.
    pub stream: Stream,
    /// Offset of the first byte that is missing.
    pub from: u64,
    /// Offset of the first byte that is there again.
    pub to: u64,
}

/// A stream ends before its exec does: the event `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct End {
    /// Why.
    pub reason: EndReason,
}

/// Why a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The server shuts down; the exec goes on, and can be followed at the next server.
    Shutdown,
    /// Nothing more was asked for: the exec runs, and was not to be followed.
    Snapshot,
}

/// What the server says on an attached WebSocket, beside output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum AttachEvent {
    /// The first: the exec as it is.
    Started {
        /// The exec.
        exec: Exec,
    },
    /// Bytes are not kept any more.
    Dropped {
        /// Which.
        #[serde(flatten)]
        dropped: Dropped,
    },
    /// The last: it has ended, and all of its output came before.
    Ended {
        /// The exec.
        exec: Exec,
    },
    /// The last: what became of it is not known.
    Lost {
        /// Why.
        error: ApiError,
    },
    /// The last: the stream ends, and the exec goes on.
    End {
        /// Why.
        reason: EndReason,
    },
    /// What was asked for was not done; the stream goes on.
    Refused {
        /// Why.
        error: ApiError,
    },
    /// Nothing is printed, and the connection lives.
    Heartbeat {},
}

/// What a client asks for on an attached WebSocket, beside input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub enum AttachAction {
    /// No more input comes: a pipe is closed.
    EndStdin {},
    /// The terminal gets another size.
    Resize {
        /// Lines.
        #[schema(minimum = 1, maximum = 65535)]
        rows: u16,
        /// Characters in a line.
        #[schema(minimum = 1, maximum = 65535)]
        columns: u16,
    },
    /// A signal is sent.
    Signal {
        /// Which.
        signal: Signal,
        /// Who gets it.
        #[serde(default)]
        target: Target,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_on_the_wire() {
        let output =
            OutputEvent { stream: Stream::Stdout, offset: 7, output: Output::new(b"a".into()) };
        let json = json!({"stream": "stdout", "offset": 7, "text": "a"});
        assert_eq!(serde_json::to_value(&output).unwrap(), json);
        assert_eq!(serde_json::from_value::<OutputEvent>(json).unwrap(), output);
        // A client ignores what it does not know.
        let newer = json!({"new": [1], "stream": "stderr", "offset": 0, "base64": "/w=="});
        let read: OutputEvent = serde_json::from_value(newer).unwrap();
        assert_eq!(read.output.as_bytes(), b"\xff");
        let dropped = Dropped { stream: Stream::Stderr, from: 1, to: 2 };
        let json = json!({"event": "dropped", "stream": "stderr", "from": 1, "to": 2});
        assert_eq!(serde_json::to_value(AttachEvent::Dropped { dropped }).unwrap(), json);
        let beat = serde_json::to_value(AttachEvent::Heartbeat {}).unwrap();
        assert_eq!(beat, json!({"event": "heartbeat"}));
    }

    #[test]
    fn actions_are_read_and_refuse_what_they_do_not_know() {
        let read = |text| serde_json::from_str::<AttachAction>(text);
        assert_eq!(read(r#"{"action":"end_stdin"}"#).unwrap(), AttachAction::EndStdin {});
        let resize = AttachAction::Resize { rows: 2, columns: 3 };
        assert_eq!(read(r#"{"action":"resize","rows":2,"columns":3}"#).unwrap(), resize);
        let signal = AttachAction::Signal { signal: Signal::TERM, target: Target::Group };
        assert_eq!(read(r#"{"action":"signal","signal":"TERM"}"#).unwrap(), signal);
        for text in [r#"{"action":"end_stdin","x":1}"#, r#"{"action":"fly"}"#, "[]", "{}"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
