//! What an error came from.

use rustix::io::Errno;
use std::error::Error;
use std::io;

/// Whether a disk was full, as the error or one of its causes says.
pub(crate) fn is_full(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let source = error.downcast_ref::<io::Error>();
        let errno = source.and_then(io::Error::raw_os_error).map(Errno::from_raw_os_error);
        if matches!(errno, Some(Errno::NOSPC | Errno::DQUOT)) {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] io::Error);

    #[test]
    fn a_full_disk_is_seen_behind_other_errors() {
        for errno in [Errno::NOSPC, Errno::DQUOT] {
            assert!(is_full(&io::Error::from(errno)));
            assert!(is_full(&Outer(errno.into())));
        }
        assert!(!is_full(&Outer(Errno::IO.into())));
        assert!(!is_full(&io::Error::other("no space left on device")));
    }
}
