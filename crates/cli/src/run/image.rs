//! The root file system that the policy names.

use crate::error::CliError;
use atoll_api::policy::Image;
use atoll_store::image::{Images, Limits};
use std::path::{Path, PathBuf};

/// The directory that holds the image, unpacked below `cache` if it is an
/// archive; nothing for this machine's own.
pub(super) fn root(image: &Image, cache: &Path) -> Result<Option<PathBuf>, CliError> {
    let Image::Path(path) = image else { return Ok(None) };
    let root = if path.is_dir() { path.clone() } else { unpacked(path, cache)? };
    // Links in it lead from its own root, which is not ours.
    let has = |name: &str| root.join(name).symlink_metadata().is_ok();
    if has("bin") || has("usr/bin") {
        return Ok(Some(root));
    }
    let text = format!("{} is no root file system", path.display());
    Err(CliError::new(text)
        .hint("there is neither bin nor usr/bin in it; `docker export` of a container gives one"))
}

fn unpacked(path: &Path, cache: &Path) -> Result<PathBuf, CliError> {
    let images = Images::open(cache)
        .map_err(|error| CliError::new("the image cache cannot be used").because(error))?;
    let image = images.get(path, &Limits::default()).map_err(|error| {
        CliError::new("the root file system cannot be had")
            .because(error)
            .hint("--image takes host, a directory or a tar archive (plain, gzip or zstd)")
    })?;
    Ok(image.root)
}
