//! The first frame of each side: which version is spoken.
//!
//! Rules for whoever changes the protocol: the frame header and this message never
//! change; within a version things are only added, and a side that may meet an
//! older one leaves out what that one does not know; what must change its
//! meaning gets the next version, and both are spoken for as long as guests of the
//! older one may be alive.

use serde::{Deserialize, Serialize};

/// The newest version that this side speaks.
pub const VERSION: u32 = 1;

/// The oldest version that this side speaks.
pub const OLDEST: u32 = 1;

/// What a side says first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The newest version that the sender speaks.
    pub version: u32,
    /// The oldest version that the sender speaks.
    pub oldest: u32,
}

/// Two sides without a version in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the other side speaks protocol versions {} to {}, this one {OLDEST} to {VERSION}",
    .theirs.oldest, .theirs.version
)]
pub struct NoCommonVersion {
    /// What the other side said.
    pub theirs: Hello,
}

impl Hello {
    /// What this side says.
    pub const OURS: Self = Self { version: VERSION, oldest: OLDEST };

    /// The version that both speak: the newest.
    ///
    /// # Errors
    ///
    /// [`NoCommonVersion`].
    pub fn agree(self) -> Result<u32, NoCommonVersion> {
        let version = self.version.min(VERSION);
        if version >= self.oldest.max(OLDEST) {
            Ok(version)
        } else {
            Err(NoCommonVersion { theirs: self })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_in_common_is_spoken() {
        let agree = |oldest, version| Hello { version, oldest }.agree().ok();
        assert_eq!(Hello::OURS.agree(), Ok(VERSION));
        assert_eq!(agree(1, 9), Some(VERSION));
        assert_eq!(agree(VERSION + 1, VERSION + 2), None);
        assert_eq!(agree(0, 0), None);
    }

    #[test]
    fn a_newer_side_may_say_more() {
        let hello = r#"{"version":7,"oldest":1,"features":["x"]}"#;
        assert_eq!(serde_json::from_str::<Hello>(hello).unwrap().agree(), Ok(VERSION));
    }
}
