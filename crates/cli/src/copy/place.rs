//! One side of a copy, as it is written.

use atoll_api::octets::Octets;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// Where relative paths of a sandbox begin.
const HOME: &str = "/home/user";

/// One side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Local(Local),
    Remote(Remote),
}

/// A side that is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Local {
    /// Standard input or output.
    Stream,
    Path(PathBuf),
}

/// A side that is a sandbox's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remote {
    pub(crate) sandbox: String,
    path: PathBuf,
    /// It was written with a slash at its end, and means a directory.
    pub(super) is_directory: bool,
}

impl Place {
    /// `SANDBOX:PATH`, else a path here; `./a:b` is one here too.
    pub(crate) fn read(word: &OsStr) -> Self {
        if word == "-" {
            return Self::Local(Local::Stream);
        }
        let bytes = word.as_bytes();
        let colon = bytes.iter().position(|byte| *byte == b':');
        let sandbox = colon.and_then(|colon| std::str::from_utf8(&bytes[..colon]).ok());
        let is_name = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        match (sandbox, colon) {
            (Some(sandbox), Some(colon)) if is_name(sandbox) => {
                let rest = &bytes[colon + 1..];
                let path = Path::new(HOME).join(OsStr::from_bytes(rest));
                let is_directory = rest.is_empty() || rest.ends_with(b"/");
                Self::Remote(Remote { sandbox: sandbox.to_owned(), path, is_directory })
            }
            _ => Self::Local(Local::Path(PathBuf::from(word))),
        }
    }
}

impl Remote {
    /// The path inside.
    pub(super) fn path(&self) -> Octets {
        octets(self.path.clone().into_os_string())
    }

    /// The same below it.
    pub(super) fn join(&self, name: &OsStr) -> Octets {
        octets(self.path.join(name).into_os_string())
    }

    /// What it is called.
    pub(super) fn name(&self) -> Option<&OsStr> {
        self.path.file_name()
    }

    /// Whether the content of a directory is meant, and not the directory.
    pub(super) fn means_content(&self) -> bool {
        self.path.as_os_str().as_bytes().ends_with(b"/.")
    }
}

fn octets(path: OsString) -> Octets {
    Octets::new(path.into_vec()).expect("no argument has a NUL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_colon_are_a_sandbox() {
        let remote = |word: &str| match Place::read(OsStr::new(word)) {
            Place::Remote(remote) => Some((remote.sandbox.clone(), remote.path().to_string())),
            Place::Local(_) => None,
        };
        let some = |sandbox: &str, path: &str| Some((sandbox.to_owned(), path.to_owned()));
        assert_eq!(remote("web:/tmp/a"), some("web", "/tmp/a"));
        assert_eq!(remote("web:a:b"), some("web", "/home/user/a:b"));
        assert_eq!(remote("sbx_00:"), some("sbx_00", "/home/user/"));
        for word in ["a", "/a:b", "./a:b", "a/b:c", "-", ":a", "a b:c", "ü:x"] {
            assert_eq!(remote(word), None, "{word}");
        }
        assert_eq!(Place::read(OsStr::new("-")), Place::Local(Local::Stream));
    }
}
