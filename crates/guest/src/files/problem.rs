//! What a failed call is for the host.

use atoll_protocol::octets::Octets;
use atoll_protocol::problem::{Code, Problem};
use rustix::io::Errno;
use std::path::{Component, Path};

/// Longest path that the kernel takes, in bytes, its NUL among them.
const PATH_BYTES_MAX: usize = 4096;

/// How much of a path is told, in bytes: the reason comes after it.
const SHOWN_BYTES_MAX: usize = 1024;

/// What was asked for, to say so when it fails.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    verb: &'static str,
    path: &'a Octets,
}

impl<'a> Asked<'a> {
    /// `verb` completes "could not"; the path is absolute and does not climb above
    /// the root, or it is refused.
    pub(super) fn new(verb: &'static str, path: &'a Octets) -> Result<Self, Problem> {
        let asked = Self { verb, path };
        match fault(path) {
            Some(fault) => Err(asked.problem(Code::Invalid, fault)),
            None => Ok(asked),
        }
    }

    pub(super) fn path(&self) -> &'a Path {
        self.path.as_path()
    }

    pub(super) fn octets(&self) -> &'a Octets {
        self.path
    }

    pub(super) fn problem(&self, code: Code, why: impl std::fmt::Display) -> Problem {
        let mut path = self.path.to_string();
        if path.len() > SHOWN_BYTES_MAX {
            path.truncate(path.floor_char_boundary(SHOWN_BYTES_MAX));
            path.push('…');
        }
        Problem::new(code, format!("could not {} {path}: {why}", self.verb))
    }

    pub(super) fn errno(&self, errno: Errno) -> Problem {
        let problem = match errno {
            Errno::LOOP => {
                self.problem(Code::Denied, "too many links, or one of /proc that leads anywhere")
            }
            errno => self.problem(code(errno), std::io::Error::from(errno)),
        };
        problem.with_errno(Some(errno.raw_os_error()))
    }

    /// The same of the standard library's error.
    pub(super) fn io(&self, error: &std::io::Error) -> Problem {
        Errno::from_io_error(error)
            .map_or_else(|| self.problem(Code::Failed, error), |errno| self.errno(errno))
    }
}

/// What is wrong with a path as it is written.
///
/// The kernel takes `..` in the root for the root. Here it is a mistake of who
/// asks, and a link that says so still means the root.
fn fault(path: &Octets) -> Option<&'static str> {
    if path.as_bytes().is_empty() {
        return Some("the path is empty");
    }
    if !path.as_path().is_absolute() {
        return Some("the path is not absolute");
    }
    if path.as_bytes().len() >= PATH_BYTES_MAX {
        return Some("the path is too long");
    }
    let mut depth = 0_usize;
    for component in path.as_path().components() {
        match component {
            Component::Normal(name) if name.len() > 255 => return Some("a name is too long"),
            Component::Normal(_) => depth += 1,
            Component::ParentDir if depth == 0 => return Some("the path leads above the root"),
            Component::ParentDir => depth -= 1,
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    None
}

/// What kind of failure an error number is.
pub(super) fn code(errno: Errno) -> Code {
    match errno {
        Errno::NOENT => Code::NotFound,
        Errno::EXIST
        | Errno::NOTEMPTY
        | Errno::ISDIR
        | Errno::NOTDIR
        | Errno::BUSY
        | Errno::TXTBSY
        | Errno::XDEV => Code::Conflict,
        Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::LOOP => Code::Denied,
        Errno::INVAL | Errno::NAMETOOLONG => Code::Invalid,
        Errno::NOSPC | Errno::DQUOT => Code::NoSpace,
        Errno::FBIG | Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::MLINK => Code::Limit,
        Errno::NOSYS | Errno::OPNOTSUPP => Code::Unsupported,
        _ => Code::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_judged_as_they_are_written() {
        let long = format!("/{}", "a/".repeat(2048));
        let name = format!("/{}", "n".repeat(256));
        let faults = [
            ("", "empty"),
            ("a", "not absolute"),
            ("./a", "not absolute"),
            ("/..", "above the root"),
            ("/a/../../b", "above the root"),
            (&long, "path is too long"),
            (&name, "name is too long"),
        ];
        for (path, expected) in faults {
            let problem = Asked::new("read", &path.try_into().unwrap()).unwrap_err();
            assert_eq!(problem.code, Code::Invalid);
            assert!(problem.message.contains(expected), "{path}: {problem}");
        }
        for path in ["/", "//", "/.", "/a/..", "/a/../b/", "/a//b", "/..a"] {
            assert!(Asked::new("read", &path.try_into().unwrap()).is_ok(), "{path}");
        }
    }

    proptest! {
        #[test]
        fn a_path_that_is_taken_never_climbs(
            steps in proptest::collection::vec("[ab]|\\.|\\.\\.|", 0..12),
        ) {
            let path = format!("/{}", steps.join("/"));
            let octets = Octets::try_from(path.as_str()).unwrap();
            let mut depth = 0_i32;
            let climbs = steps.iter().any(|step| {
                depth += match step.as_str() { ".." => -1, "" | "." => 0, _ => 1 };
                depth < 0
            });
            prop_assert_eq!(Asked::new("read", &octets).is_err(), climbs, "{}", path);
        }
    }
}
