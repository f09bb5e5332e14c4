//! Requests of HTTP as a sandbox's rules see them.

use super::refusal::{Refused, Wanted};
use super::sandbox::Sandbox;
use super::uses::Event;
use crate::control::Protocol;
use crate::http::{self, Asked, BoxFuture, Passage, Session, Site};
use crate::policy::Request;
use crate::secret::Secrets;
use crate::tls::Upstream;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// How long a request waits for an approval.
const HOLD: Duration = Duration::from_secs(120);

/// The requests on one connection.
pub(super) struct Requests {
    sandbox: Arc<Sandbox>,
    site: Site,
    host: String,
}

impl Requests {
    /// Those to a site.
    pub(super) fn new(sandbox: Arc<Sandbox>, site: Site) -> Self {
        let host = site.host.to_string();
        Self { sandbox, site, host }
    }

    fn wanted<'a>(&'a self, asked: &'a Asked) -> Wanted<'a> {
        Wanted {
            host: &self.host,
            port: self.site.port,
            protocol: Protocol::Http,
            method: Some(&asked.method),
            path: Some(&asked.path_and_query),
        }
    }

    async fn decide(&self, asked: &Asked) -> Result<Passage, Refused> {
        let Site { host, port, is_tls } = &self.site;
        let request = Request { method: &asked.method, path: &asked.path_and_query };
        loop {
            let settings = self.sandbox.settings();
            let verdict = settings.policy.request(host.as_policy(), *port, *is_tls, request);
            self.sandbox.permit(&verdict, &self.wanted(asked), HOLD).await?;
            // While somebody was asked, the rules may have become others.
            if Arc::ptr_eq(&settings, &self.sandbox.settings()) {
                break;
            }
        }
        self.sandbox.begin(&self.host, *port, true)?;
        Ok(self.sandbox.settings().bindings.passage(host, *port, *is_tls, request))
    }
}

impl Session for Requests {
    fn decide<'a>(&'a self, asked: &'a Asked) -> BoxFuture<'a, Result<Passage, http::Refused>> {
        Box::pin(async move {
            self.decide(asked).await.map_err(|refused| {
                self.sandbox.deny(&refused, &self.wanted(asked));
                refused.of_http(&self.sandbox.settings().rules)
            })
        })
    }

    fn dial(&self) -> BoxFuture<'_, Result<TcpStream, http::Refused>> {
        Box::pin(async move {
            self.sandbox.dial(&self.site.host, self.site.port).await.map_err(|refused| {
                let (port, protocol) = (self.site.port, Protocol::Http);
                let host = &self.host;
                self.sandbox
                    .deny(&refused, &Wanted { host, port, protocol, method: None, path: None });
                refused.of_http(&self.sandbox.settings().rules)
            })
        })
    }

    fn tls(&self) -> Arc<Upstream> {
        self.sandbox.outside.tls.clone()
    }

    fn secrets(&self) -> Arc<Secrets> {
        self.sandbox.settings().bindings.secrets()
    }

    fn tell(&self, told: http::Told) {
        match told {
            http::Told::Refused { asked, refused } => {
                let refused = Refused::of_request(&refused);
                let wanted = asked.as_ref().map_or_else(
                    || Wanted {
                        host: &self.host,
                        port: self.site.port,
                        protocol: Protocol::Http,
                        method: None,
                        path: None,
                    },
                    |asked| self.wanted(asked),
                );
                self.sandbox.deny(&refused, &wanted);
            }
            http::Told::Used { secret, asked } => {
                self.sandbox.tell_secret(Event::Used, secret, &self.host, asked.port);
            }
            http::Told::Redacted { secret, asked } => {
                self.sandbox.tell_secret(Event::Redacted, secret, &self.host, asked.port);
            }
            http::Told::Answered { .. } => {}
        }
    }

    fn count(&self, sent: u64, received: u64) -> Result<(), http::Refused> {
        match self.sandbox.count(&self.host, sent, received) {
            true => Ok(()),
            false => {
                let refused = Refused::new(
                    "budget-bytes",
                    "the policy allows no more bytes, and the request was broken off",
                    "ask the user for a larger budget",
                );
                Err(refused.of_http(&self.sandbox.settings().rules))
            }
        }
    }
}
