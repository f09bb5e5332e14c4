//! What the gateway knows of a connection, and is asked and told about it.

use super::Refused;
use crate::host::Host;
use crate::secret::{Injection, Secret, Secrets};
use crate::tls::Upstream;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::net::TcpStream;

/// A future on the heap.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The one host that requests of a connection may be for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Which.
    pub host: Host,
    /// At which of its ports.
    pub port: u16,
    /// Whether it is spoken to over TLS.
    pub is_tls: bool,
}

/// A request that is to be decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// For whom.
    pub host: Host,
    /// At which port.
    pub port: u16,
    /// Whether over TLS.
    pub is_tls: bool,
    /// Its method, as it came.
    pub method: String,
    /// Its path as it came, perhaps with a query. `*` for OPTIONS of a whole server.
    pub path_and_query: String,
    /// Whether it becomes a WebSocket.
    pub is_websocket: bool,
    /// The names of secrets whose placeholders are in it. Where one is refused for that, it is
    /// after the request was decided.
    pub placeholders: Vec<String>,
}

impl Asked {
    /// Its path alone: a query may hold what no record should.
    #[must_use]
    pub fn path(&self) -> &str {
        self.path_and_query.split('?').next().unwrap_or_default()
    }
}

/// With what an allowed request goes out.
#[derive(Debug, Clone, Default)]
pub struct Passage {
    /// Secrets that are put in. Nothing is put in without TLS.
    pub injections: Vec<Injection>,
    /// Secrets that are covered in the answer beside those: all that are ever put in for this host.
    pub redactions: Vec<Arc<Secret>>,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum Told {
    /// A request was refused here; one that [`Session::decide`] refused is not told.
    Refused {
        /// Which, if it was understood so far.
        asked: Option<Asked>,
        /// Why.
        refused: Refused,
    },
    /// A secret was put into a request that went out.
    Used {
        /// Its name.
        secret: String,
        /// For which request.
        asked: Asked,
    },
    /// A secret was in an answer, and covered. Told once an answer.
    Redacted {
        /// Its name.
        secret: String,
        /// In answer to what.
        asked: Asked,
    },
    /// The head of an answer came.
    Answered {
        /// To what.
        asked: Asked,
        /// Its status.
        status: u16,
    },
}

/// A connection as the gateway sees it.
pub trait Session: Send + Sync + 'static {
    /// Decides one request. It may take as long as a person does; it is dropped when the client
    /// goes.
    fn decide<'a>(&'a self, asked: &'a Asked) -> BoxFuture<'a, Result<Passage, Refused>>;

    /// Connects to the site of the connection. Called only after a request was allowed.
    fn dial(&self) -> BoxFuture<'_, Result<TcpStream, Refused>>;

    /// Whom TLS towards the site is verified by.
    fn tls(&self) -> Arc<Upstream>;

    /// All secrets of the sandbox.
    fn secrets(&self) -> Arc<Secrets>;

    /// Hears what happened. Must not block.
    fn tell(&self, told: Told);

    /// Counts bytes of bodies as they pass.
    ///
    /// # Errors
    ///
    /// Where there were too many; what is under way is cut off.
    fn count(&self, sent: u64, received: u64) -> Result<(), Refused> {
        let _ = (sent, received);
        Ok(())
    }
}
