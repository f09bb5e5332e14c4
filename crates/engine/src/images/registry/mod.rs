//! Registries: asking them for manifests and layers.
//!
//! A pull asks for little: a manifest or two, a configuration, and layers. So this is the small
//! part of the distribution specification that reads, over the same dialling, look-ups and TLS
//! as the gateway of sandboxes.
//!
//! Source: OCI distribution specification 1.1; RFC 9110, section 11 (authentication).

mod challenge;
mod feed;
mod http;
mod login;
mod proxies;

pub(crate) use http::{ANSWER_WITHIN, Roads, SILENT_MAX, Url};
pub use proxies::Proxies;

pub(super) use feed::Feed;

use super::{ImageError, pause};
use atoll_egress::control::Resolver;
use atoll_store::digest::Digest;
use atoll_store::oci::{DOCUMENT_BYTES_MAX, Descriptor, Reference};
use challenge::Challenge;
use http::{Fetched, body};
use hyper::StatusCode;
use hyper::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, RANGE, WWW_AUTHENTICATE};
use login::Login;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How a registry is asked for a manifest of any kind.
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.docker.distribution.manifest.v2+json";

/// How often a request is sent that may succeed the next time.
const TRIES: u32 = 3;

/// How long to wait before the second try; doubled for the third.
const BACK_OFF: Duration = Duration::from_millis(300);

/// Longer than this nobody waits because a registry says so.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// How registries are reached, and who we are there.
pub struct Outside {
    /// Certificates of the authorities by which they are known, in PEM.
    pub roots: Box<dyn Fn() -> Vec<u8> + Send + Sync>,
    /// Where names are looked up.
    pub resolver: Box<dyn Fn() -> Resolver + Send + Sync>,
    /// By which proxies.
    pub proxies: Proxies,
    /// A file as `docker login` writes it (`config.json`). Helper programs are not run.
    pub logins: Option<PathBuf>,
}

impl Default for Outside {
    fn default() -> Self {
        Self {
            roots: Box::new(Vec::new),
            resolver: Box::new(Resolver::default),
            proxies: Proxies::default(),
            logins: None,
        }
    }
}

pub(super) struct Registry {
    outside: Outside,
}

impl Registry {
    pub(super) fn new(outside: Outside) -> Self {
        Self { outside }
    }

    /// A conversation about one image. What may have changed on this machine is read anew.
    pub(super) fn session(&self, reference: &Reference) -> Result<Session, ImageError> {
        let outside = &self.outside;
        let name = reference.to_string();
        let registry = reference.registry.clone();
        let login = outside.logins.as_deref().map(|path| login::find(path, &registry));
        let login = login.transpose().map_err(|reason| ImageError::Store { reason })?.flatten();
        let scheme = if reference.is_plain { "http" } else { "https" };
        let host = if registry == "docker.io" { "registry-1.docker.io" } else { &registry };
        Ok(Session {
            base: format!("{scheme}://{host}/v2/{}", reference.repository),
            roads: Roads::of(outside),
            name,
            registry,
            scope: format!("repository:{}:pull", reference.repository),
            login,
            token: Mutex::default(),
        })
    }
}

/// A conversation with a registry about one image.
pub(super) struct Session {
    name: String,
    registry: String,
    /// Where everything of the repository is.
    base: String,
    scope: String,
    roads: Roads,
    login: Option<Login>,
    /// What is to be said of who we are, since the registry asked.
    token: Mutex<Option<HeaderValue>>,
}

impl Session {
    /// The manifest of that tag or digest, as it is.
    pub(super) async fn manifest(&self, selector: &str) -> Result<Vec<u8>, ImageError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(MANIFESTS));
        self.read(&format!("{}/manifests/{selector}", self.base), headers).await
    }

    /// A document that a manifest names.
    pub(super) async fn document(&self, named: &Descriptor) -> Result<Vec<u8>, ImageError> {
        self.read(&self.blob(&named.digest), HeaderMap::new()).await
    }

    fn blob(&self, digest: &Digest) -> String {
        format!("{}/blobs/{digest}", self.base)
    }

    /// A layer from that byte on, and where the answer begins.
    async fn layer(&self, digest: &Digest, from: u64) -> Result<(Fetched, u64), ImageError> {
        let mut headers = HeaderMap::new();
        if from > 0 {
            let range = HeaderValue::try_from(format!("bytes={from}-"));
            headers.insert(RANGE, range.unwrap_or(HeaderValue::from_static("bytes=0-")));
        }
        let answer = self.get(&self.blob(digest), headers).await?;
        // Who does not know ranges begins at the beginning.
        let begins = if answer.status == StatusCode::PARTIAL_CONTENT { from } else { 0 };
        Ok((answer, begins))
    }

    async fn read(&self, url: &str, headers: HeaderMap) -> Result<Vec<u8>, ImageError> {
        let answer = self.get(url, headers).await?;
        let bytes = body(answer.body, DOCUMENT_BYTES_MAX).await;
        bytes.map_err(|reason| self.unreachable(reason))
    }

    /// Gets something, proving who we are if we are asked to. What may succeed the next time is
    /// tried again, a few times.
    async fn get(&self, url: &str, headers: HeaderMap) -> Result<Fetched, ImageError> {
        let url: Url = url.parse().map_err(|reason| self.unreachable(reason))?;
        let mut tries = 0;
        let mut has_proven = false;
        loop {
            tries += 1;
            let back_off = BACK_OFF * 2_u32.pow(tries - 1);
            let mut headers = headers.clone();
            if let Some(token) = self.token() {
                headers.insert(AUTHORIZATION, token);
            }
            let answer = match self.roads.get(&url, &headers).await {
                Ok(answer) => answer,
                Err(failed) if failed.may_pass && tries < TRIES => {
                    pause(back_off).await;
                    continue;
                }
                Err(failed) => return Err(self.unreachable(failed.reason)),
            };
            match answer.status {
                StatusCode::OK | StatusCode::PARTIAL_CONTENT => return Ok(answer),
                StatusCode::UNAUTHORIZED if !has_proven => {
                    has_proven = true;
                    tries -= 1;
                    self.prove(&answer).await?;
                }
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(self.refused()),
                StatusCode::NOT_FOUND => {
                    return Err(ImageError::NotFound { name: self.name.clone() });
                }
                StatusCode::TOO_MANY_REQUESTS => {
                    let after = answer.retry_after().unwrap_or(back_off);
                    if tries >= TRIES || after > WAIT_MAX {
                        let registry = self.registry.clone();
                        return Err(ImageError::Limited { registry, after });
                    }
                    pause(after).await;
                }
                status if status.is_server_error() && tries < TRIES => pause(back_off).await,
                status => {
                    let registry = self.registry.clone();
                    let what = format!("{} to {}", status.as_u16(), url.path());
                    return Err(ImageError::Answer { registry, what });
                }
            }
        }
    }

    /// Finds out what to say of who we are.
    async fn prove(&self, answer: &Fetched) -> Result<(), ImageError> {
        let challenges = answer.headers.get_all(WWW_AUTHENTICATE).into_iter();
        let challenge = challenges
            .filter_map(|value| Challenge::parse(value.to_str().ok()?))
            .max_by_key(Challenge::strength);
        let proof = match challenge {
            Some(Challenge::Bearer { realm, service, scope }) => {
                let scope = scope.unwrap_or_else(|| self.scope.clone());
                self.fetch_token(&realm, service.as_deref(), &scope).await?
            }
            Some(Challenge::Basic) => {
                let login = self.login.as_ref().ok_or_else(|| self.refused())?;
                login.basic()
            }
            None => return Err(self.refused()),
        };
        let mut proof = HeaderValue::try_from(proof).map_err(|_| self.refused())?;
        proof.set_sensitive(true);
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(proof);
        Ok(())
    }

    async fn fetch_token(
        &self,
        realm: &str,
        service: Option<&str>,
        scope: &str,
    ) -> Result<String, ImageError> {
        let url = challenge::token_url(realm, service, scope);
        let url: Url = url.parse().map_err(|reason| self.unreachable(reason))?;
        if url.is_plain() && !self.base.starts_with("http://") {
            return Err(self.unreachable("it sends us to a place without TLS".to_owned()));
        }
        let mut headers = HeaderMap::new();
        if let Some(login) = &self.login {
            let basic = HeaderValue::try_from(login.basic()).map_err(|_| self.refused())?;
            headers.insert(AUTHORIZATION, basic);
        }
        let answer = self.roads.get(&url, &headers).await;
        let answer = answer.map_err(|failed| self.unreachable(failed.reason))?;
        match answer.status {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(self.refused()),
            status => {
                let what = format!("{} where it sends us for a token", status.as_u16());
                return Err(ImageError::Answer { registry: self.registry.clone(), what });
            }
        }
        let bytes = body(answer.body, challenge::TOKEN_BYTES_MAX).await;
        let bytes = bytes.map_err(|reason| self.unreachable(reason))?;
        let token = challenge::token(&bytes).ok_or_else(|| self.refused())?;
        Ok(format!("Bearer {token}"))
    }

    fn token(&self) -> Option<HeaderValue> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn refused(&self) -> ImageError {
        ImageError::Unauthorised { registry: self.registry.clone(), name: self.name.clone() }
    }

    fn unreachable(&self, reason: String) -> ImageError {
        ImageError::Unreachable { registry: self.registry.clone(), reason }
    }

    /// It gave something else than it was to be.
    pub(super) fn damaged(&self, what: &str, expected: &Digest, found: &Digest) -> ImageError {
        ImageError::Damaged { reason: format!("{what} came as {found}, and was to be {expected}") }
    }
}

/// For who holds one beside a task.
type Shared<T> = Arc<Mutex<Option<T>>>;
