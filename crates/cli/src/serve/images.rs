//! Images of a server: where they are kept, what they may take, how registries are reached.

use super::places::Places;
use crate::env::{HTTP_PROXY, HTTPS_PROXY, NO_PROXY, Variable};
use crate::error::CliError;
use crate::gateway::host;
use atoll_engine::images::{Images, Outside, Proxies, Quota};
use std::path::PathBuf;

/// What was asked for.
pub(crate) struct Wanted {
    /// A file as `docker login` writes it.
    pub(crate) logins: Option<PathBuf>,
    /// Bytes that images may take.
    pub(crate) bytes_max: Option<u64>,
    /// Bytes of the disk that they leave free.
    pub(crate) free_bytes: Option<u64>,
}

/// How what is outside of this machine is reached.
pub(super) fn outside(logins: Option<PathBuf>) -> Result<Outside, CliError> {
    host::resolver()?;
    let text = |variable: Variable| {
        variable.get().map(|value| value.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let proxies = Proxies::parse(&text(HTTPS_PROXY), &text(HTTP_PROXY), &text(NO_PROXY));
    let proxies = proxies.map_err(|_| {
        // Not the text itself: it may have a password.
        CliError::new("HTTPS_PROXY or HTTP_PROXY is no address of a proxy")
            .hint("write http://HOST:PORT or socks5://HOST:PORT")
    })?;
    Ok(Outside {
        roots: Box::new(host::roots),
        // It was understood a moment ago, and the environment is as it was.
        resolver: Box::new(|| host::resolver().unwrap_or_default()),
        proxies,
        logins,
    })
}

/// Opens the images.
pub(super) fn open(places: &Places, wanted: Wanted) -> Result<Images, CliError> {
    let outside = outside(wanted.logins)?;
    let usual = Quota::default();
    let quota = Quota {
        free_bytes: wanted.free_bytes.unwrap_or(usual.free_bytes),
        images_bytes: wanted.bytes_max,
    };
    Images::open(&places.sandboxes(), quota, outside)
        .map_err(|error| CliError::new("cannot use the images of the server").because(error))
}
