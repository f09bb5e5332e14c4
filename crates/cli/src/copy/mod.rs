//! Files into a sandbox and out of it: `atoll cp`.
//!
//! | to know | read |
//! |---|---|
//! | what the words of the command line mean | [`place`] |
//! | how files get in | [`upload`] |
//! | how they get out, from a stranger | [`download`] |
//! | what is shown meanwhile | [`progress`] |

mod download;
mod place;
mod progress;
mod upload;

pub(crate) use download::download;
pub(crate) use place::{Local, Place};
pub(crate) use upload::upload;

use std::path::Path;

/// What was copied.
#[derive(Debug, Default, serde::Serialize)]
pub(crate) struct Copied {
    /// Files, directories and links.
    pub(crate) entries: u64,
    /// Bytes of files; of an archive on a stream, of that.
    pub(crate) bytes: u64,
    /// What was left out, as far as it is known by name.
    pub(crate) left_out: Vec<String>,
    /// How many were left out.
    pub(crate) left_out_count: u64,
}

impl Copied {
    fn leave_out(&mut self, path: &Path) {
        self.left_out.push(atoll_store::escape::escape(path));
        self.left_out_count += 1;
    }
}
