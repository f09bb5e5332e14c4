//! Certificates of what a sandbox trusts: an authority of its own, and one for each host.

use super::{H2, HTTP1, provider};
use crate::host::Host;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, DnValue,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
    SanType, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use zeroize::Zeroizing;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// As long as a sandbox may live.
const AUTHORITY_VALID: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
const LEAF_VALID: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// After which a certificate of a host is made anew, long before it ends.
const LEAF_USED: Duration = DAY;
/// Hosts whose certificates are kept.
const LEAVES_MAX: usize = 256;
/// Most bytes of a common name (RFC 5280, appendix A.1).
const COMMON_NAME_MAX: usize = 64;
/// In front of the name of an authority, as other programs print it.
const SUBJECT: &str = "subject=";

/// What one sandbox trusts, beside what its image does.
pub struct Authority {
    name: String,
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
    /// Of every host's certificate.
    leaf_key: KeyPair,
    leaves: Mutex<Leaves>,
}

/// Certificates that were made, in the order of their making.
#[derive(Default)]
struct Leaves {
    by_host: HashMap<Host, (SystemTime, Arc<ServerConfig>)>,
    order: VecDeque<Host>,
}

/// Why there is no authority, or no certificate of it.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A key or certificate was not made.
    #[error("a certificate cannot be made")]
    Make(#[source] rcgen::Error),
    /// What was kept of it is not what was given to be kept.
    #[error("what was kept of a certificate authority has no {missing}")]
    Kept {
        /// What it lacks.
        missing: &'static str,
    },
    /// A certificate is refused by what is to serve it.
    #[error("a certificate cannot be served")]
    Serve(#[source] rustls::Error),
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    ///
    /// [`AuthorityError::Make`].
    pub fn generate(name: &str) -> Result<Self, AuthorityError> {
        let key = new_key()?;
        let params = authority_params(name);
        let certificate = params.self_signed(&key).map_err(AuthorityError::Make)?;
        Self::new(name, certificate.der().clone(), key)
    }

    fn new(
        name: &str,
        certificate: CertificateDer<'static>,
        key: KeyPair,
    ) -> Result<Self, AuthorityError> {
        Ok(Self {
            name: name.to_owned(),
            certificate,
            issuer: Issuer::new(authority_params(name), key),
            leaf_key: new_key()?,
            leaves: Mutex::default(),
        })
    }

    /// All that has to be kept of it, with its key.
    #[must_use]
    pub fn to_pem(&self) -> Zeroizing<String> {
        let key = Zeroizing::new(self.issuer.key().serialize_der());
        let key = Zeroizing::new(pem("PRIVATE KEY", &key));
        Zeroizing::new(format!("{SUBJECT}{}\n{}{}", self.name, self.certificate_pem(), *key))
    }

    /// The one that [`Self::to_pem`] was asked of.
    ///
    /// # Errors
    ///
    /// [`AuthorityError::Kept`], and where the key is none, [`AuthorityError::Make`].
    pub fn from_pem(kept: &str) -> Result<Self, AuthorityError> {
        let lacks = |missing| AuthorityError::Kept { missing };
        let name = kept.lines().next().and_then(|line| line.strip_prefix(SUBJECT));
        let name = name.ok_or_else(|| lacks("name"))?;
        let certificate = CertificateDer::from_pem_slice(kept.as_bytes());
        let certificate = certificate.map_err(|_| lacks("certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(kept.as_bytes()).map_err(|_| lacks("key"))?;
        let key = KeyPair::try_from(&key).map_err(AuthorityError::Make)?;
        Self::new(name, certificate, key)
    }

    /// What programs inside are to trust.
    #[must_use]
    pub fn certificate_pem(&self) -> String {
        pem("CERTIFICATE", &self.certificate)
    }

    /// How a host is served: one name in its certificate, HTTP/2 and HTTP/1.1.
    ///
    /// # Errors
    ///
    /// [`AuthorityError::Make`] and [`AuthorityError::Serve`].
    pub fn server(&self, host: &Host) -> Result<Arc<ServerConfig>, AuthorityError> {
        let now = SystemTime::now();
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made, config)) = leaves.by_host.get(host) {
            // A clock that was set back makes one anew too.
            if now.duration_since(*made).is_ok_and(|age| age < LEAF_USED) {
                return Ok(Arc::clone(config));
            }
        }
        let config = Arc::new(self.serving(host, now)?);
        leaves.keep(host, now, Arc::clone(&config));
        Ok(config)
    }

    fn serving(&self, host: &Host, now: SystemTime) -> Result<ServerConfig, AuthorityError> {
        let params = leaf_params(host, now)?;
        let leaf = params.signed_by(&self.leaf_key, &self.issuer).map_err(AuthorityError::Make)?;
        let key = PrivatePkcs8KeyDer::from(self.leaf_key.serialize_der());
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(AuthorityError::Serve)?
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key.into())
            .map_err(AuthorityError::Serve)?;
        config.alpn_protocols = vec![H2.to_vec(), HTTP1.to_vec()];
        Ok(config)
    }
}

impl Leaves {
    fn keep(&mut self, host: &Host, now: SystemTime, config: Arc<ServerConfig>) {
        if self.by_host.insert(host.clone(), (now, config)).is_none() {
            self.order.push_back(host.clone());
        }
        while self.order.len() > LEAVES_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.by_host.remove(&oldest);
            }
        }
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("name", &self.name).finish_non_exhaustive()
    }
}

fn new_key() -> Result<KeyPair, AuthorityError> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(AuthorityError::Make)
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    let name = name.to_owned();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, DnValue::Utf8String(name));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let since = since_epoch(SystemTime::now());
    params.not_before = date_time_ymd(1970, 1, 1) + since.saturating_sub(DAY);
    params.not_after = date_time_ymd(1970, 1, 1) + since.saturating_add(AUTHORITY_VALID);
    params
}

fn leaf_params(host: &Host, now: SystemTime) -> Result<CertificateParams, AuthorityError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let text = host.to_string();
    if text.len() <= COMMON_NAME_MAX {
        params.distinguished_name.push(DnType::CommonName, DnValue::Utf8String(text));
    }
    params.subject_alt_names = vec![match host {
        Host::Name(name) => {
            SanType::DnsName(name.as_str().try_into().map_err(AuthorityError::Make)?)
        }
        Host::Address(address) => SanType::IpAddress(*address),
    }];
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let since = since_epoch(now);
    // A day back, for clocks inside that were restored with a machine.
    params.not_before = date_time_ymd(1970, 1, 1) + since.saturating_sub(DAY);
    params.not_after = date_time_ymd(1970, 1, 1) + since.saturating_add(LEAF_VALID);
    Ok(params)
}

fn since_epoch(now: SystemTime) -> Duration {
    now.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Bytes in the text form of RFC 7468.
fn pem(label: &str, der: &[u8]) -> String {
    let encoded = Zeroizing::new(STANDARD.encode(der));
    let mut text = format!("-----BEGIN {label}-----\n");
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = after;
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}
