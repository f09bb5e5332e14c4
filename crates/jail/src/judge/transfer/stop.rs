//! Why a move was not made.

use rustix::io::Errno;

/// Why a move was not made. The source is whole then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Stop {
    /// The rename fails so without an overlay too.
    Kernel(Errno),
    TooManyEntries,
    TooManyBytes,
    TooDeep,
    Failed(Errno),
}

impl From<Errno> for Stop {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOSPC | Errno::DQUOT => Self::Kernel(error),
            error => Self::Failed(error),
        }
    }
}

impl Stop {
    /// As it travels through a pipe.
    pub(in super::super) fn encode(outcome: Result<(), Self>) -> [u8; 5] {
        let (tag, errno) = match outcome {
            Ok(()) => (0, 0),
            Err(Self::Kernel(errno)) => (1, errno.raw_os_error()),
            Err(Self::TooManyEntries) => (2, 0),
            Err(Self::TooManyBytes) => (3, 0),
            Err(Self::TooDeep) => (4, 0),
            Err(Self::Failed(errno)) => (5, errno.raw_os_error()),
        };
        let mut bytes = [tag; 5];
        bytes[1..].copy_from_slice(&errno.to_le_bytes());
        bytes
    }

    /// A process that ended without a word has failed.
    pub(in super::super) fn decode(bytes: &[u8]) -> Result<(), Self> {
        let Ok(&[tag, a, b, c, d]) = <&[u8; 5]>::try_from(bytes) else {
            return Err(Self::Failed(Errno::IO));
        };
        let errno = || match i32::from_le_bytes([a, b, c, d]) {
            number @ 1..4096 => Errno::from_raw_os_error(number),
            _ => Errno::IO,
        };
        match tag {
            0 => Ok(()),
            1 => Err(Self::Kernel(errno())),
            2 => Err(Self::TooManyEntries),
            3 => Err(Self::TooManyBytes),
            4 => Err(Self::TooDeep),
            _ => Err(Self::Failed(errno())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_survive_the_pipe() {
        let stops = [
            Ok(()),
            Err(Stop::Kernel(Errno::NOTEMPTY)),
            Err(Stop::TooManyEntries),
            Err(Stop::TooManyBytes),
            Err(Stop::TooDeep),
            Err(Stop::Failed(Errno::ACCESS)),
        ];
        for outcome in stops {
            assert_eq!(Stop::decode(&Stop::encode(outcome)), outcome);
        }
        for odd in [&b""[..], b"P", b"\x01\0\0\0\0", b"\x05\xff\xff\xff\xff"] {
            assert!(Stop::decode(odd).is_err(), "{odd:?}");
        }
    }
}
