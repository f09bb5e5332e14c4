//! Names by which a layer says what is gone from the layers below.
//!
//! Source: the OCI image specification, "Whiteouts".

use super::unpack::UnpackError;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

const PREFIX: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// What begins so, an older union file system kept for itself.
const RESERVED: &[u8] = b".wh..wh.";

/// What an entry says by its name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// This is gone.
    Gone(PathBuf),
    /// All that layers below have in this directory is gone.
    Opaque(PathBuf),
    /// Nothing that matters here.
    None,
}

impl Mark {
    /// Reads a path within a layer; none if it is a file's like any other.
    pub(super) fn of(path: &Path) -> Result<Option<Self>, UnpackError> {
        let names = path.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name.as_bytes()),
            _ => None,
        });
        let Some(name) = names.clone().find(|name| name.starts_with(PREFIX)) else {
            return Ok(None);
        };
        let above = path.parent().unwrap_or(Path::new("")).to_owned();
        let is_last = path.file_name().is_some_and(|last| last.as_bytes() == name)
            && names.filter(|name| name.starts_with(PREFIX)).count() == 1;
        let rest = &name[PREFIX.len()..];
        match name {
            OPAQUE if is_last => Ok(Some(Self::Opaque(above))),
            _ if name.starts_with(RESERVED) => Ok(Some(Self::None)),
            _ if is_last && !matches!(rest, b"" | b"." | b"..") => {
                Ok(Some(Self::Gone(above.join(OsStr::from_bytes(rest)))))
            }
            _ => Err(UnpackError::Whiteout { path: path.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_told_from_files() {
        let of = |path: &str| Mark::of(Path::new(path));
        for path in ["", "a", "a/.whatever", "wh.a", ".wh", "a.wh.b/c"] {
            assert_eq!(of(path).unwrap(), None, "{path}");
        }
        assert_eq!(of("a/.wh.b").unwrap(), Some(Mark::Gone("a/b".into())));
        assert_eq!(of(".wh..b").unwrap(), Some(Mark::Gone(".b".into())));
        assert_eq!(of("a/.wh..wh..opq").unwrap(), Some(Mark::Opaque("a".into())));
        assert_eq!(of(".wh..wh..opq").unwrap(), Some(Mark::Opaque("".into())));
        for path in [".wh..wh.plnk", ".wh..wh.plnk/1", "a/.wh..wh.aufs", ".wh..wh..opq/x"] {
            assert_eq!(of(path).unwrap(), Some(Mark::None), "{path}");
        }
        for path in [".wh.", "a/.wh..", "a/.wh...", ".wh.a/b", ".wh.a/.wh.a"] {
            assert!(matches!(of(path), Err(UnpackError::Whiteout { .. })), "{path}");
        }
    }
}
