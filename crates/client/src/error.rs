//! How a request can fail.

use atoll_api::error::{ApiError, ErrorCode};
use std::error::Error;
use std::io;

/// Why there is no answer to a request, or not the one that was wanted.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens there.
    #[error("no server listens on {endpoint}")]
    NoServer {
        /// Where.
        endpoint: String,
        /// What the system said.
        source: io::Error,
    },
    /// The server cannot be reached.
    #[error("cannot reach the server on {endpoint}")]
    Connect {
        /// Where.
        endpoint: String,
        /// What the system said.
        source: io::Error,
    },
    /// The connection broke in the middle, so it is not known what became of the request.
    #[error("the connection to the server broke while {during}")]
    Broken {
        /// What was being done, as in "the answer was read".
        during: &'static str,
        /// How it broke.
        source: Box<dyn Error + Send + Sync>,
    },
    /// What the body of the request is made of cannot be read.
    #[error("cannot read what is to be sent")]
    Source(#[source] io::Error),
    /// The server answered with an error.
    #[error("{0}")]
    Api(Box<ApiError>),
    /// The answer is none of this API.
    #[error("the answer cannot be understood: {reason}")]
    NotUnderstood {
        /// What is wrong with it.
        reason: String,
    },
    /// The answer is larger than is taken.
    #[error("the answer is larger than {limit_bytes} bytes")]
    TooLarge {
        /// The most that is taken.
        limit_bytes: usize,
    },
    /// The request cannot be written.
    #[error("the request cannot be written: {reason}")]
    Request {
        /// What is wrong with it.
        reason: String,
    },
    /// The system gave no random bytes.
    #[error("could not get random bytes")]
    Random(#[source] getrandom::Error),
}

impl ClientError {
    /// The code, where the server answered with an error.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Api(error) => Some(error.code),
            _ => None,
        }
    }

    /// Whether what was asked for may have happened although there is no answer.
    pub fn is_unknown(&self) -> bool {
        match self {
            Self::Broken { .. } | Self::NotUnderstood { .. } | Self::TooLarge { .. } => true,
            Self::Api(error) => error.took_effect == atoll_api::error::TookEffect::Unknown,
            Self::NoServer { .. }
            | Self::Connect { .. }
            | Self::Source(_)
            | Self::Request { .. }
            | Self::Random(_) => false,
        }
    }

    pub(crate) fn broken(during: &'static str) -> impl Fn(Box<dyn Error + Send + Sync>) -> Self {
        move |source| Self::Broken { during, source }
    }
}
