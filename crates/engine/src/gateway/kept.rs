//! Names that have addresses in a sandbox, which outlive the gateway and the server: programs inside
//! remember addresses.
//!
//! ```text
//!     STATE/names/ID    one name a line, in the order of their addresses
//! ```

use atoll_api::id::SandboxId;
use atoll_egress::name::Name;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The directory of all of them.
#[derive(Debug, Clone)]
pub(crate) struct Kept(PathBuf);

impl Kept {
    /// Those beside the records of a server.
    pub(crate) fn of(state: &Path) -> Self {
        Self(state.join("names"))
    }

    fn file(&self, id: SandboxId) -> PathBuf {
        self.0.join(id.to_string())
    }

    /// Names that have addresses, in their order. One that is none ends the list: what comes
    /// behind would have another's address.
    pub(crate) fn names(&self, id: SandboxId) -> Vec<Name> {
        let text = fs::read_to_string(self.file(id)).unwrap_or_default();
        text.lines().map_while(|line| line.parse().ok()).collect()
    }

    /// Keeps one more name. After the end of the machine nobody remembers any of them.
    pub(crate) fn named(&self, id: SandboxId, name: &Name) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let mut options = OpenOptions::new();
        let mut file = options.append(true).create(true).mode(0o600).open(self.file(id))?;
        file.write_all(format!("{name}\n").as_bytes())
    }

    /// A sandbox is no more.
    pub(crate) fn gone(&self, id: SandboxId) {
        // There may be none.
        fs::remove_file(self.file(id)).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_api::id::ID_BYTES;

    #[test]
    fn what_is_kept_comes_again_and_goes() {
        let state = tempfile::tempdir().unwrap();
        let kept = Kept::of(state.path());
        let id = SandboxId::from_random([7; ID_BYTES]);
        assert_eq!(kept.names(id), Vec::new());
        let names: Vec<Name> = ["b.test", "a.test"].map(|name| name.parse().unwrap()).into();
        for name in &names {
            kept.named(id, name).unwrap();
        }
        assert_eq!(kept.names(id), names);
        kept.gone(id);
        assert_eq!(kept.names(id), Vec::new());
    }
}
