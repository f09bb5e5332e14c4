//! What the gateway tells who started it.

use crate::name::Name;
use serde::{Deserialize, Serialize};

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Told {
    /// It is in its jail and takes orders.
    Ready,
    /// A sandbox is served.
    Added {
        /// Which one.
        sandbox: u64,
    },
    /// An order could not be carried out.
    Failed {
        /// Which sandbox it was about.
        sandbox: u64,
        /// Why.
        text: String,
    },
    /// The rules of a sandbox are others now.
    Changed {
        /// Which one.
        sandbox: u64,
    },
    /// A name has the next address of those that stand for names.
    Named {
        /// Whose.
        sandbox: u64,
        /// Which name.
        name: Name,
    },
    /// Something was refused.
    Denied {
        /// Whose.
        sandbox: u64,
        /// What, and why.
        denial: Denial,
    },
    /// Somebody is to be asked.
    Question {
        /// Whose.
        sandbox: u64,
        /// Its number among those of the sandbox.
        question: u64,
        /// What about.
        asked: Asked,
    },
    /// A host was reached for the first time.
    Reached {
        /// By which sandbox.
        sandbox: u64,
        /// The host.
        host: String,
        /// Its port.
        port: u16,
    },
    /// A secret was sent to where it is for: at once for the first time, then how often that was
    /// within a while.
    Used {
        /// Whose.
        sandbox: u64,
        /// Its name.
        secret: String,
        /// To which host.
        host: String,
        /// To which port.
        port: u16,
        /// How often, since it was told before.
        count: u64,
    },
    /// A secret was in an answer, and covered; told as uses are.
    Redacted {
        /// Whose.
        sandbox: u64,
        /// Its name.
        secret: String,
        /// From which host.
        host: String,
        /// From which port.
        port: u16,
        /// How often, since it was told before.
        count: u64,
    },
    /// What a sandbox has sent and received: asked for, or a moment after that has changed.
    Counted {
        /// Which one.
        sandbox: u64,
        /// How much.
        counts: Counts,
        /// Somebody has asked.
        is_answer: bool,
    },
    /// A sandbox is served no more: the last word about it.
    Removed {
        /// Which one.
        sandbox: u64,
        /// All that it has sent and received; nothing if it was not served.
        counts: Counts,
    },
    /// A listener of the sandbox does not work any more: nothing is reached through it.
    Deaf {
        /// Which sandbox.
        sandbox: u64,
    },
}

/// What was spoken when something was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// A question for a name.
    Dns,
    /// Nothing that was looked at.
    Tcp,
    /// TLS that was not opened.
    Tls,
    /// HTTP, opened or plain.
    Http,
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denial {
    /// The reason's word, which never changes.
    pub code: String,
    /// A name or an address.
    pub host: String,
    /// The port; 0 where it was a question for a name.
    pub port: u16,
    /// What was spoken.
    pub protocol: Protocol,
    /// The request's method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The request's path, without its query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Text of the rule that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// In which layer that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<usize>,
    /// What happened, in words.
    pub message: String,
    /// What would help.
    pub next_step: String,
    /// How often, since it was told before.
    pub count: u64,
}

/// What somebody is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// What is spoken.
    pub protocol: Protocol,
    /// The request's method, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The request's path, without its query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Text of the rule that asks.
    pub rule: String,
    /// In which layer that is.
    pub layer: usize,
}

/// What has been sent and received in the whole life of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Bytes that left.
    pub sent_bytes: u64,
    /// Bytes that came.
    pub received_bytes: u64,
    /// Connections that were let through.
    pub connections: u64,
    /// Requests of HTTP that were let through.
    pub requests: u64,
    /// Questions for names.
    pub questions: u64,
    /// What was refused.
    pub denials: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_read_as_it_was_said() {
        let host = || "a.test".to_owned();
        let counts = Counts { sent_bytes: 1, received_bytes: u64::MAX, ..Counts::default() };
        let denial = Denial {
            code: "not-allowed".to_owned(),
            host: host(),
            port: 0,
            protocol: Protocol::Dns,
            method: None,
            path: Some("/".to_owned()),
            rule: None,
            layer: Some(2),
            message: "no".to_owned(),
            next_step: "ask".to_owned(),
            count: 3,
        };
        let asked = Asked {
            host: host(),
            port: 443,
            protocol: Protocol::Http,
            method: Some("GET".to_owned()),
            path: None,
            rule: "a.test".to_owned(),
            layer: 0,
        };
        let (sandbox, port) = (7, 443);
        let secret = || "TOKEN".to_owned();
        let words = [
            Told::Ready,
            Told::Added { sandbox },
            Told::Failed { sandbox, text: "why".to_owned() },
            Told::Changed { sandbox },
            Told::Named { sandbox, name: "a.test".parse().unwrap() },
            Told::Denied { sandbox, denial },
            Told::Question { sandbox, question: 1, asked },
            Told::Reached { sandbox, host: host(), port },
            Told::Used { sandbox, secret: secret(), host: host(), port, count: 1 },
            Told::Redacted { sandbox, secret: secret(), host: host(), port, count: 1 },
            Told::Counted { sandbox, counts, is_answer: true },
            Told::Removed { sandbox, counts },
            Told::Deaf { sandbox },
        ];
        for word in words {
            let said = serde_json::to_vec(&word).unwrap();
            assert_eq!(serde_json::from_slice::<Told>(&said).unwrap(), word);
        }
        // It has counts, and no count is one.
        for no_last_word in [
            r#"{"removed":{"sandbox":7}}"#,
            r#"{"removed":{"sandbox":7,"counts":{},"is_answer":true}}"#,
        ] {
            assert!(serde_json::from_str::<Told>(no_last_word).is_err(), "{no_last_word}");
        }
    }
}
