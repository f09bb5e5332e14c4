//! A proxy for programs that are told of one: the same decisions for what they say in other words.

use super::addresses::{Meaning, meaning};
use super::connection::{Way, pass};
use super::explain::Begun;
use super::refusal::{Refused, Wanted};
use super::sandbox::Sandbox;
use super::session::Requests;
use crate::control::Protocol;
use crate::host::Host;
use crate::http::{self, Asked, BoxFuture, Gate, Limits, Session, Site};
use crate::policy::Connection;
use std::sync::Arc;
use tokio::net::TcpStream;

/// Serves a connection of such a program.
pub(super) async fn serve(sandbox: &Arc<Sandbox>, stream: TcpStream) {
    let door = Arc::new(Door { sandbox: sandbox.clone() });
    let Some(tunnel) = http::proxy(stream, door.clone(), Limits::default()).await else { return };
    let (bytes, stream) = tunnel.stream.into_parts();
    if let Ok(host) = door.host(&tunnel.host) {
        let way = Way { host, port: tunnel.port, protocol: Protocol::Tcp };
        pass(sandbox, Begun::with(stream, bytes), way).await;
    }
}

struct Door {
    sandbox: Arc<Sandbox>,
}

impl Door {
    /// The host that is meant: an address may stand for a name.
    fn host(&self, host: &Host) -> Result<Host, Refused> {
        let Host::Address(address) = host else { return Ok(host.clone()) };
        match meaning(*address) {
            Meaning::Host(address) => Ok(self.sandbox.host(address)),
            Meaning::Own | Meaning::Gateway | Meaning::Explain => Err(Refused::new(
                "address-not-allowed",
                "the address is one of the sandbox itself, where no proxy leads",
                "connect to it without the proxy",
            )),
        }
    }

    fn refuse(&self, refused: &Refused, host: &Host, port: u16) -> http::Refused {
        let (host, protocol) = (host.to_string(), Protocol::Http);
        self.sandbox
            .deny(refused, &Wanted { host: &host, port, protocol, method: None, path: None });
        refused.of_http(&self.sandbox.settings().rules)
    }
}

impl Gate for Door {
    fn tunnel<'a>(&'a self, host: &'a Host, port: u16) -> BoxFuture<'a, Result<(), http::Refused>> {
        let decided = self.host(host).and_then(|host| {
            match self.sandbox.settings().policy.connection(host.as_policy(), port) {
                Connection::Refuse(refusal) => Err(Refused::by_policy(refusal, &host.to_string())),
                // What comes through it is decided as if it had come by itself.
                Connection::Pass(_) | Connection::Look { .. } => Ok(()),
            }
        });
        let decided = decided.map_err(|refused| self.refuse(&refused, host, port));
        Box::pin(std::future::ready(decided))
    }

    fn session(&self, site: &Site) -> Result<Arc<dyn Session>, http::Refused> {
        let host = self.host(&site.host);
        let host = host.map_err(|refused| self.refuse(&refused, &site.host, site.port))?;
        Ok(Arc::new(Requests::new(self.sandbox.clone(), Site { host, ..site.clone() })))
    }

    fn tell(&self, asked: Option<Asked>, refused: http::Refused) {
        let Some(asked) = asked else { return };
        let host = asked.host.to_string();
        let wanted = Wanted {
            host: &host,
            port: asked.port,
            protocol: Protocol::Http,
            method: Some(&asked.method),
            path: Some(&asked.path_and_query),
        };
        self.sandbox.deny(&Refused::of_request(&refused), &wanted);
    }
}
