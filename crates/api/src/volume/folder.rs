//! Folders of the server's machine that are volumes.

use crate::sandbox::{InvalidRequest, malformed, not_longer};
use std::path::{Component, Path};

/// Longest path of such a folder, in bytes.
pub const HOST_PATH_BYTES_MAX: usize = 1024;

/// Checks what a path can be judged by without looking.
pub(super) fn validate_host_path(path: &str) -> Result<(), InvalidRequest> {
    let field = "host_path";
    not_longer(field, path, HOST_PATH_BYTES_MAX)?;
    if !path.starts_with('/') {
        return malformed(field, "is no absolute path");
    }
    if path.contains('\0') {
        return malformed(field, "has a NUL in it");
    }
    let is_plain = |part: &str| !matches!(part, "." | "..");
    let names = Path::new(path).components().filter(|part| matches!(part, Component::Normal(_)));
    if names.count() == 0 {
        return malformed(field, "is the whole machine");
    }
    if !path.split('/').all(is_plain) {
        return malformed(field, "has `.` or `..` in it");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_where_it_says() {
        for path in ["/srv/data", "/srv/data/", "/srv//data", "/a b/.hidden", "/...x"] {
            assert!(validate_host_path(path).is_ok(), "{path}");
        }
        let long = format!("/{}", "x".repeat(HOST_PATH_BYTES_MAX));
        for path in ["", "srv", "/", "//", "/srv/..", "/srv/./x", "/a\0b", &long] {
            assert!(validate_host_path(path).is_err(), "{path:?}");
        }
    }
}
