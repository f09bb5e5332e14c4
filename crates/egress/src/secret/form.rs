//! Where in a request a secret is put.

use hyper::header::{self, HeaderName};
use std::fmt;
use std::str::FromStr;

/// Where in a request a secret is put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// `Authorization: Bearer VALUE`.
    Bearer,
    /// `Authorization: Basic …` with the value as password. Git over https: `x-access-token`.
    Basic {
        /// As whom.
        user: String,
    },
    /// `NAME: VALUE`.
    Header {
        /// Of this name.
        name: HeaderName,
    },
    /// `?NAME=VALUE`.
    Query {
        /// Of this name.
        name: String,
    },
}

/// Why a text is no form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// Another word.
    #[error("a secret is put in as bearer, basic:USER, header:NAME or query:NAME")]
    Unknown,
    /// Nothing behind the colon, or what cannot stand there.
    #[error("a user has no \":\" and no control characters")]
    User,
    /// No header.
    #[error("that is no name of a header")]
    Header,
    /// A header that says how the message is to be read, or whom it is for.
    #[error("this header belongs to the connection; a secret cannot be put there")]
    OfConnection,
    /// No name.
    #[error("a name in a query has visible ASCII letters, and none of \"&=#;%+\"")]
    Query,
}

/// Headers that no secret may be put into.
const OF_CONNECTION: [HeaderName; 12] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    header::EXPECT,
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::ACCEPT_ENCODING,
    header::RANGE,
];

impl FromStr for Form {
    type Err = FormError;

    fn from_str(text: &str) -> Result<Self, FormError> {
        if text == "bearer" {
            return Ok(Self::Bearer);
        }
        let (kind, rest) = text.split_once(':').ok_or(FormError::Unknown)?;
        match kind {
            "basic" => {
                let is_user =
                    !rest.is_empty() && !rest.contains(|c: char| c == ':' || c.is_control());
                is_user.then(|| Self::Basic { user: rest.to_owned() }).ok_or(FormError::User)
            }
            "header" => {
                let name: HeaderName = rest.parse().map_err(|_| FormError::Header)?;
                let is_free = !OF_CONNECTION.contains(&name);
                is_free.then_some(Self::Header { name }).ok_or(FormError::OfConnection)
            }
            "query" => {
                let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"&=#;%+".contains(&byte);
                let is_name = !rest.is_empty() && rest.bytes().all(is_plain);
                is_name.then(|| Self::Query { name: rest.to_owned() }).ok_or(FormError::Query)
            }
            _ => Err(FormError::Unknown),
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bearer => f.write_str("bearer"),
            Self::Basic { user } => write!(f, "basic:{user}"),
            Self::Header { name } => write!(f, "header:{name}"),
            Self::Query { name } => write!(f, "query:{name}"),
        }
    }
}
