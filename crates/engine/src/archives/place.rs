//! Where archives are kept: a folder, or a bucket of a store that speaks S3.

use super::service::Connector;
use crate::images::{Outside, Roads};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::multipart::MultipartStore;
use object_store::path::Path as Location;
use object_store::{ObjectStore, RetryConfig};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// Where, as it is written: `file:///PATH` or `s3://BUCKET[/PREFIX]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A folder.
    Folder(PathBuf),
    /// A bucket, and what all names in it begin with.
    Bucket {
        /// Its name.
        bucket: String,
        /// What names begin with; may be empty.
        prefix: String,
    },
}

/// Why a text is no place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no place for archives: write file:///PATH or s3://BUCKET/PREFIX")]
pub struct PlaceError {
    /// What was written.
    pub text: String,
}

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let bad = || PlaceError { text: text.chars().take(200).collect() };
        if let Some(path) = text.strip_prefix("file://") {
            let is_plain = path.starts_with('/') && path.len() > 1 && !path.contains(['?', '#']);
            return if is_plain { Ok(Self::Folder(path.into())) } else { Err(bad()) };
        }
        let rest = text.strip_prefix("s3://").ok_or_else(bad)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let is_bucket = (3..=63).contains(&bucket.len()) && bucket.bytes().all(is_name);
        let prefix = prefix.trim_matches('/');
        let is_prefix = prefix.is_empty()
            || prefix.split('/').all(|part| {
                !part.is_empty()
                    && !part.bytes().all(|byte| byte == b'.')
                    && part.bytes().all(is_name)
            });
        if !is_bucket || !is_prefix {
            return Err(bad());
        }
        Ok(Self::Bucket { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "file://{}", path.display()),
            Self::Bucket { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Self::Bucket { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

/// Who we are to a store. Nothing shows it.
#[derive(Clone, Default)]
pub struct Credentials {
    /// What `AWS_ACCESS_KEY_ID` says.
    pub access_key_id: String,
    /// What `AWS_SECRET_ACCESS_KEY` says.
    pub secret_access_key: String,
    /// What `AWS_SESSION_TOKEN` says.
    pub session_token: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}

/// How a bucket is reached.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Where, if not at Amazon: `http://` or `https://` and a host.
    pub endpoint: Option<String>,
    /// The region; `us-east-1` where nothing is said.
    pub region: Option<String>,
    /// Who we are.
    pub credentials: Credentials,
}

/// A store that is open.
pub(super) struct Opened {
    pub(super) store: Arc<dyn ObjectStore>,
    /// Where uploads in parts can be told from outside, so that one can be given up later.
    pub(super) parts: Option<Arc<dyn MultipartStore>>,
    pub(super) prefix: Location,
    /// The folder, if it is one.
    pub(super) folder: Option<PathBuf>,
}

/// Opens it; nothing is asked yet.
pub(super) fn open(place: &Place, access: &Access, outside: &Outside) -> Result<Opened, String> {
    match place {
        Place::Folder(folder) => {
            make_folder(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            let store = LocalFileSystem::new_with_prefix(folder).map_err(|e| e.to_string())?;
            let store = Arc::new(store.with_fsync(true));
            let (folder, prefix) = (Some(folder.clone()), Location::default());
            Ok(Opened { store, parts: None, prefix, folder })
        }
        Place::Bucket { bucket, prefix } => {
            let Access { endpoint, region, credentials } = access;
            let region = region.as_deref().unwrap_or("us-east-1");
            let mut builder = AmazonS3Builder::new()
                .with_bucket_name(bucket)
                .with_region(region)
                .with_access_key_id(&credentials.access_key_id)
                .with_secret_access_key(&credentials.secret_access_key)
                .with_disable_bulk_delete(true)
                .with_http_connector(Connector::new(Roads::of(outside)))
                .with_retry(RetryConfig {
                    max_retries: 4,
                    retry_timeout: Duration::from_secs(120),
                    ..RetryConfig::default()
                });
            if let Some(token) = &credentials.session_token {
                builder = builder.with_token(token);
            }
            if let Some(endpoint) = endpoint {
                builder = builder
                    .with_endpoint(endpoint.trim_end_matches('/'))
                    .with_allow_http(endpoint.starts_with("http://"))
                    .with_config(AmazonS3ConfigKey::VirtualHostedStyleRequest, "false");
            }
            let store = Arc::new(builder.build().map_err(|error| error.to_string())?);
            let prefix = Location::from(prefix.as_str());
            Ok(Opened { store: store.clone(), parts: Some(store), prefix, folder: None })
        }
    }
}

/// Makes the folder, for its owner alone, where there is none.
fn make_folder(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_apart_and_nothing_else_is_one() {
        let place = |text: &str| text.parse::<Place>();
        assert_eq!(place("file:///srv/a"), Ok(Place::Folder("/srv/a".into())));
        let bucket = |prefix: &str| {
            Ok(Place::Bucket { bucket: "my-bucket".to_owned(), prefix: prefix.to_owned() })
        };
        assert_eq!(place("s3://my-bucket"), bucket(""));
        assert_eq!(place("s3://my-bucket/a/b/"), bucket("a/b"));
        for bad in [
            "",
            "/srv/a",
            "file://srv",
            "file:///",
            "s3://",
            "s3://a",
            "s3://my bucket",
            "s3://my-bucket/../x",
            "s3://my-bucket/a//b",
            "s3://user:pw@my-bucket/x",
            "https://my-bucket",
        ] {
            assert!(place(bad).is_err(), "{bad:?}");
        }
        for text in ["file:///srv/a", "s3://my-bucket", "s3://my-bucket/a/b"] {
            assert_eq!(place(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn nothing_shows_who_we_are() {
        let access = Access {
            credentials: Credentials {
                access_key_id: "AKIAEXAMPLE".to_owned(),
                secret_access_key: "hidden".to_owned(),
                session_token: Some("hidden".to_owned()),
            },
            ..Access::default()
        };
        let shown = format!("{access:?}");
        assert!(!shown.contains("hidden") && !shown.contains("AKIA"), "{shown}");
    }
}
