//! How images are named.

use crate::digest::{Digest, DigestError};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where names without a registry are looked for.
const DEFAULT_REGISTRY: &str = "docker.io";

/// An image of a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// It is spoken to without TLS, as the name says.
    pub is_plain: bool,
    /// Host, and port if it is said.
    pub registry: String,
    /// Path of the repository.
    pub repository: String,
    /// The tag; `latest` if neither that nor a digest is said.
    pub tag: Option<String>,
    /// The digest of its manifest.
    pub digest: Option<Digest>,
}

/// What an image's name leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A registry, or what was pulled from there.
    Registry(Reference),
    /// A directory of OCI's layout, `oci:PATH[:TAG]`.
    Layout {
        /// The directory.
        path: PathBuf,
        /// Which image, if there are several.
        tag: Option<String>,
    },
    /// An archive, `docker-archive:PATH[:NAME]` or `oci-archive:PATH[:TAG]`.
    Archive {
        /// The file.
        path: PathBuf,
        /// Which image, if there are several.
        tag: Option<String>,
    },
    /// A directory or an archive of whatever kind it is found to be.
    Path(PathBuf),
}

/// Why a text names no image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    #[error("{text:?} names no image: {reason}")]
    Malformed { text: String, reason: &'static str },
    #[error("{text:?} names no image")]
    Digest { text: String, source: DigestError },
    #[error("{path:?} is no absolute path")]
    Relative { path: String },
}

impl Source {
    /// Reads a name as people write it.
    ///
    /// # Errors
    ///
    /// [`ReferenceError`].
    pub fn parse(text: &str) -> Result<Self, ReferenceError> {
        let schemes = [("oci:", true), ("oci-archive:", false), ("docker-archive:", false)];
        for (scheme, is_layout) in schemes {
            if let Some(rest) = text.strip_prefix(scheme) {
                let (path, tag) = split_tag(rest)?;
                return Ok(match is_layout {
                    true => Self::Layout { path, tag },
                    false => Self::Archive { path, tag },
                });
            }
        }
        if text.starts_with('/') {
            return Ok(Self::Path(absolute(text)?));
        }
        Ok(Self::Registry(text.strip_prefix("docker://").unwrap_or(text).parse()?))
    }
}

/// A path, and what follows a colon in its last part.
fn split_tag(text: &str) -> Result<(PathBuf, Option<String>), ReferenceError> {
    // A name of an image may have slashes and colons itself: the path is what ends first.
    let start = text.rfind('/').map_or(0, |at| at + 1);
    let split = match text.find(".tar:") {
        Some(at) => Some(at + ".tar".len()),
        None => text[start..].find(':').map(|at| start + at),
    };
    let (path, tag) = match split {
        Some(at) => (&text[..at], Some(text[at + 1..].to_owned())),
        None => (text, None),
    };
    Ok((absolute(path)?, tag.filter(|tag| !tag.is_empty())))
}

fn absolute(path: &str) -> Result<PathBuf, ReferenceError> {
    if path.starts_with('/') && !path.contains('\0') {
        return Ok(path.into());
    }
    Err(ReferenceError::Relative { path: path.chars().take(200).collect() })
}

impl Reference {
    /// The tag or digest, as a registry is asked for it.
    #[must_use]
    pub fn selector(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            (None, None) => "latest".to_owned(),
        }
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let malformed = |reason| {
            let text = text.chars().take(200).collect();
            ReferenceError::Malformed { text, reason }
        };
        let (is_plain, rest) = match text.strip_prefix("http://") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix("https://").unwrap_or(text)),
        };
        if rest.len() > 512 {
            return Err(malformed("it is too long"));
        }
        let (rest, digest) = match rest.split_once('@') {
            None => (rest, None),
            Some((rest, digest)) => {
                let digest = digest.parse().map_err(|source| ReferenceError::Digest {
                    text: text.chars().take(200).collect(),
                    source,
                })?;
                (rest, Some(digest))
            }
        };
        let (registry, path) = match rest.split_once('/') {
            Some((host, path)) if is_host(host) => (host, path),
            _ if is_plain => return Err(malformed("after http:// comes the registry's host")),
            _ => (DEFAULT_REGISTRY, rest),
        };
        let registry = if registry == "index.docker.io" { DEFAULT_REGISTRY } else { registry };
        if !is_host_name(registry) {
            return Err(malformed("that is no name of a host"));
        }
        let (path, tag) = match path.split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (path, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(malformed("that is no tag"));
        }
        let library = registry == DEFAULT_REGISTRY && !path.contains('/');
        let repository = if library { format!("library/{path}") } else { path.to_owned() };
        // With what was left away too, or else its whole name would be none.
        if !is_repository(&repository) {
            return Err(malformed(
                "repositories have lower-case letters, digits and . _ - between slashes",
            ));
        }
        let tag = tag.map(str::to_owned);
        let tag = if digest.is_none() { tag.or_else(|| Some("latest".to_owned())) } else { tag };
        Ok(Self { is_plain, registry: registry.to_owned(), repository, tag, digest })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_plain { "http://" } else { "" };
        write!(f, "{scheme}{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

/// Whether the first part of a name is a host, as Docker tells it.
fn is_host(part: &str) -> bool {
    part == "localhost" || part.contains(['.', ':'])
}

fn is_host_name(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) => {
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return false;
            }
            ("localhost", port.strip_prefix(':').unwrap_or(port))
        }
        None => text.split_once(':').unwrap_or((text, "443")),
    };
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let port = if port.is_empty() { "443" } else { port };
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit())
        && port.parse::<u16>().is_ok_and(|port| port > 0);
    host.len() <= 253 && host.split('.').all(is_label) && is_port
}

fn is_repository(path: &str) -> bool {
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else { return false };
        is_alphanumeric(first)
            && is_alphanumeric(last)
            && bytes.iter().all(|&byte| is_alphanumeric(byte) || b"._-".contains(&byte))
            && !part.contains("..")
    };
    path.len() <= 255 && path.split('/').all(is_part)
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|byte| is_word(byte) || byte == b'.' || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn names_are_read_as_people_write_them() {
        let pinned = format!("docker.io/library/a@{DIGEST}");
        for (text, whole) in [
            ("python:3.12-slim", "docker.io/library/python:3.12-slim"),
            ("debian", "docker.io/library/debian:latest"),
            ("user/thing", "docker.io/user/thing:latest"),
            ("docker.io/debian", "docker.io/library/debian:latest"),
            ("index.docker.io/a/b:1", "docker.io/a/b:1"),
            ("ghcr.io/a/b/c:v1", "ghcr.io/a/b/c:v1"),
            ("localhost/a", "localhost/a:latest"),
            ("localhost:5000/a", "localhost:5000/a:latest"),
            ("http://127.0.0.1:5000/a:b", "http://127.0.0.1:5000/a:b"),
            ("https://r.example/a", "r.example/a:latest"),
            ("[::1]:5000/a", "[::1]:5000/a:latest"),
            (&format!("a@{DIGEST}"), &pinned),
        ] {
            let reference: Reference = text.parse().unwrap();
            assert_eq!(reference.to_string(), whole, "{text}");
            assert_eq!(whole.parse::<Reference>().unwrap(), reference, "{text}");
        }
        let both: Reference = format!("a:1@{DIGEST}").parse().unwrap();
        assert_eq!((both.selector(), both.tag.as_deref()), (DIGEST.to_owned(), Some("1")));
    }

    #[test]
    fn what_names_nothing_is_refused() {
        for text in [
            "",
            "A",
            "a b",
            "a:",
            "a:b:c",
            "-a",
            "a-",
            "a//b",
            "a/",
            "/a",
            "../a",
            "a..b",
            "a:-b",
            "a@",
            "a@sha256:1",
            "http://a",
            "http://a/b",
            "x.example:0/a",
            "x.example:99999/a",
            "x..example/a",
            "[::g]/a",
            "a\n",
            "r.example/A",
            "host:port/a",
            "a@b@c",
            "é",
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text:?}");
        }
        assert!("a".repeat(600).parse::<Reference>().is_err());
        let error = format!("a@sha512:{}", "0".repeat(128)).parse::<Reference>().unwrap_err();
        assert!(matches!(error, ReferenceError::Digest { .. }), "{error}");
    }

    #[test]
    fn files_are_named_by_their_kind() {
        let path = |path: &str| PathBuf::from(path);
        let tag = |tag: &str| Some(tag.to_owned());
        let of = |text| Source::parse(text).unwrap();
        assert_eq!(of("/a/b"), Source::Path(path("/a/b")));
        assert_eq!(of("oci:/a/b"), Source::Layout { path: path("/a/b"), tag: None });
        assert_eq!(of("oci:/a/b:v1"), Source::Layout { path: path("/a/b"), tag: tag("v1") });
        let archive = Source::Archive { path: path("/a.tar"), tag: tag("x.example:5/y:z") };
        assert_eq!(of("docker-archive:/a.tar:x.example:5/y:z"), archive);
        assert_eq!(of("oci-archive:/a:1"), Source::Archive { path: path("/a"), tag: tag("1") });
        assert!(matches!(of("docker://debian"), Source::Registry(_)));
        for text in ["oci:", "oci:a", "docker-archive:a.tar", "oci-archive::x"] {
            assert!(matches!(Source::parse(text), Err(ReferenceError::Relative { .. })), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_the_same(text in "[a-z0-9.:/@_-]{0,40}") {
            if let Ok(reference) = text.parse::<Reference>() {
                let whole = reference.to_string();
                prop_assert_eq!(whole.parse::<Reference>().unwrap(), reference);
            }
        }
    }
}
