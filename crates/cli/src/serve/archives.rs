//! Archives of a server: where they are, and by which key.

use super::images::outside;
use super::places::Places;
use crate::env::{
    AWS_ACCESS_KEY_ID, AWS_DEFAULT_REGION, AWS_REGION, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN,
    Variable,
};
use crate::error::CliError;
use atoll_engine::archives::{Access, Archives, Credentials, Place};
use atoll_store::archive::ArchiveKey;
use std::path::PathBuf;

/// What was asked for.
pub(crate) struct Wanted {
    /// Where.
    pub(crate) place: Option<Place>,
    /// A file with the key.
    pub(crate) key_file: Option<PathBuf>,
    /// Where a bucket is.
    pub(crate) endpoint: Option<String>,
}

/// Opens them, if there is a place for them.
pub(super) fn open(places: &Places, wanted: Wanted) -> Result<Option<Archives>, CliError> {
    let Some(place) = wanted.place else { return Ok(None) };
    let key = wanted.key_file.map(|path| ArchiveKey::read(&path)).transpose().map_err(|error| {
        CliError::new("cannot use the key of --archive-key-file")
            .because(error)
            .hint("make one with: (umask 077; openssl rand -hex 32 > FILE)")
    })?;
    let text = |variable: Variable| {
        variable.get().map(|value| value.to_string_lossy().into_owned()).filter(|it| !it.is_empty())
    };
    let access = Access {
        endpoint: wanted.endpoint,
        region: text(AWS_REGION).or_else(|| text(AWS_DEFAULT_REGION)),
        credentials: Credentials {
            access_key_id: text(AWS_ACCESS_KEY_ID).unwrap_or_default(),
            secret_access_key: text(AWS_SECRET_ACCESS_KEY).unwrap_or_default(),
            session_token: text(AWS_SESSION_TOKEN),
        },
    };
    if matches!(place, Place::Bucket { .. }) && access.credentials.access_key_id.is_empty() {
        return Err(CliError::new(format!("{place} needs credentials"))
            .hint("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the server's environment"));
    }
    let own = places.state.join("archives");
    let opened = Archives::open(&place, &access, key, &outside(None)?, &own);
    opened
        .map(Some)
        .map_err(|reason| CliError::new(format!("cannot keep archives in {place}: {reason}")))
}
