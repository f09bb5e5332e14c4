//! The root file system that the policy names.

use crate::error::CliError;
use atoll_api::policy::Image;
use atoll_store::image::{self, ImageError, Limits};
use std::path::{Path, PathBuf};

/// The directory that holds the image, unpacked below `cache` if it is an
/// archive; nothing for this machine's own.
pub(super) fn root(image: &Image, cache: &Path) -> Result<Option<PathBuf>, CliError> {
    let Image::Path(path) = image else { return Ok(None) };
    let found = image::root(path, cache, &Limits::default());
    found.map(Some).map_err(|error| match error {
        ImageError::NotARoot { .. } => {
            CliError::new(error.to_string()).hint("`docker export` of a container gives one")
        }
        ImageError::Cache { .. } => CliError::new("the image cache cannot be used").because(error),
        error => CliError::new("the root file system cannot be had")
            .because(error)
            .hint("--image takes host, a directory or a tar archive (plain, gzip or zstd)"),
    })
}
