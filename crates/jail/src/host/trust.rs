//! Certificates of authorities that programs inside trust beside those of the system.

use crate::spec::{Entry, What};
use std::fs;
use std::path::{Path, PathBuf};

/// Where distributions have the certificates of the authorities that they trust.
pub const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Where the certificates are inside.
#[derive(Debug, Clone, Copy)]
pub struct Trust {
    /// The sandbox's own, after those that the user has named: without the system's.
    pub own: &'static str,
    /// Those of the system with the sandbox's own.
    pub bundle: &'static str,
}

/// The only places.
pub const TRUST: Trust =
    Trust { own: "/run/atoll-trust/own.pem", bundle: "/run/atoll-trust/all.pem" };

/// Variables by which programs take other authorities in place of their own.
const BUNDLE_VARIABLES: [&str; 8] = [
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NIX_SSL_CERT_FILE",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
];

/// Variables by which programs take an authority beside their own.
const OWN_VARIABLES: [&str; 2] = ["DENO_CERT", "NODE_EXTRA_CA_CERTS"];

/// Variables by which programs take the system's authorities that have others built in.
const SWITCHES: [(&str, &str); 3] =
    [("DENO_TLS_CA_STORE", "system"), ("UV_NATIVE_TLS", "1"), ("UV_SYSTEM_CERTS", "1")];

impl Trust {
    /// Variables that lead programs there that do not look where the system has its
    /// certificates.
    pub fn variables(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let bundle = BUNDLE_VARIABLES.map(|name| (name, self.bundle));
        let own = OWN_VARIABLES.map(|name| (name, self.own));
        SWITCHES.into_iter().chain(bundle).chain(own)
    }
}

/// The certificates that programs are to trust, of which `certificate` is the sandbox's own, and
/// the same over every bundle in `etc`: some programs ask no variable where to look. `named` is in
/// place of the system's, if the user has named some.
#[must_use]
pub fn trust(etc: &Path, named: Option<Vec<u8>>, certificate: &str) -> Vec<Entry> {
    let kept = |at: &&str| {
        let below = Path::new(at).strip_prefix("/etc").ok()?;
        // A link leads to another one of them.
        let path = etc.join(below);
        path.symlink_metadata().is_ok_and(|found| found.is_file()).then_some(path)
    };
    let system = || BUNDLES.iter().find_map(kept).and_then(|path| fs::read(path).ok());
    // An image without any may have programs that bring theirs, and are led away from them.
    let host = || BUNDLES.iter().find_map(|path| fs::read(path).ok());
    let is_named = named.is_some();
    let mut bundle = named.or_else(system).or_else(host).unwrap_or_default();
    if !bundle.is_empty() && !bundle.ends_with(b"\n") {
        bundle.push(b'\n');
    }
    bundle.extend(certificate.as_bytes());
    // Who has others built in learns of those that the user has named here.
    let own = if is_named { bundle.clone() } else { certificate.as_bytes().to_vec() };
    let twins = BUNDLES.iter().filter(|at| kept(at).is_some()).map(|at| {
        let of = PathBuf::from(TRUST.bundle);
        Entry::new(*at, What::Twin { of })
    });
    let own = [Entry::file(TRUST.own, own), Entry::file(TRUST.bundle, bundle)];
    own.into_iter().chain(twins).collect()
}
