//! What PID 1 tells the launcher, and what the launcher asks of it; one message
//! per datagram.
//!
//! Each starts with a kind byte; numbers are little-endian. The launcher
//! decodes with bounds and refuses what it does not know: a message that it
//! cannot read means that the sandbox is lost.

use atoll_sys::process::End;

/// Longest message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 32 * 1024;

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The master side of the workload's terminal comes along.
    Terminal,
    /// The workload's first program has started; microseconds of the monotonic
    /// clock at which the view was finished, at which its walls stood and at which
    /// it was run, and those that the filter took.
    Started { view_us: u64, confined_us: u64, filter_us: u64, running_us: u64 },
    /// The jail could not be made, or the workload not be started.
    Failed(Failure),
    /// The workload stopped by this signal (job control).
    Stopped { signal: i32 },
    /// The workload ended.
    Ended { end: End, cpu_us: u64, max_rss_kib: u64, private_space_full: bool },
    /// Something was refused: opaque to the guest, read by the launcher.
    Refused(Vec<u8>),
}

/// Why nothing ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    /// Name of the step, stable.
    pub step: String,
    /// What happened, in words.
    pub text: String,
    pub errno: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The jail itself.
    Jail,
    /// The program was not found.
    NotFound,
    /// The program cannot be run.
    NotExecutable,
    /// The working directory cannot be entered.
    Directory,
}

/// What the launcher asks of PID 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Send this signal to the workload's process group.
    Signal(i32),
    /// Put the workload's group at the front of its terminal or behind PID 1's
    /// own, and continue it.
    Resume { front: bool },
}

const SIGNAL: u8 = 1;
const RESUME: u8 = 2;

impl Request {
    /// The request's bytes.
    #[must_use]
    pub fn encode(self) -> [u8; 5] {
        let (kind, number) = match self {
            Self::Signal(signal) => (SIGNAL, signal),
            Self::Resume { front } => (RESUME, i32::from(front)),
        };
        let [a, b, c, d] = number.to_le_bytes();
        [kind, a, b, c, d]
    }

    /// Reads a request.
    ///
    /// # Errors
    ///
    /// [`Malformed`] for an unknown kind or a wrong length.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        let (kind, number) = (reader.byte()?, reader.i32()?);
        match (kind, number, reader.0) {
            (SIGNAL, signal, []) => Ok(Self::Signal(signal)),
            (RESUME, 0 | 1, []) => Ok(Self::Resume { front: number == 1 }),
            _ => Err(Malformed),
        }
    }
}

/// A message that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

const TERMINAL: u8 = 1;
const STARTED: u8 = 3;
const FAILED: u8 = 4;
const STOPPED: u8 = 5;
const ENDED: u8 = 6;
const REFUSED: u8 = 7;

impl Message {
    /// The message's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Self::Terminal => bytes.push(TERMINAL),
            Self::Started { view_us, confined_us, filter_us, running_us } => {
                bytes.push(STARTED);
                for number in [view_us, confined_us, filter_us, running_us] {
                    bytes.extend(number.to_le_bytes());
                }
            }
            Self::Failed(failure) => {
                bytes.extend([FAILED, failure.kind as u8]);
                bytes.extend(failure.errno.to_le_bytes());
                for text in [&failure.step, &failure.text] {
                    let text = &text.as_bytes()[..text.len().min(8 * 1024)];
                    bytes.extend(u16::try_from(text.len()).unwrap_or(0).to_le_bytes());
                    bytes.extend(text);
                }
            }
            Self::Stopped { signal } => {
                bytes.push(STOPPED);
                bytes.extend(signal.to_le_bytes());
            }
            Self::Ended { end, cpu_us, max_rss_kib, private_space_full } => {
                let (kind, number) = match end {
                    End::Exited(status) => (0, i32::from(*status)),
                    End::Signalled(signal) => (1, *signal),
                    End::Stopped(signal) => (2, *signal),
                };
                bytes.extend([ENDED, kind]);
                bytes.extend(number.to_le_bytes());
                bytes.extend(cpu_us.to_le_bytes());
                bytes.extend(max_rss_kib.to_le_bytes());
                bytes.push(u8::from(*private_space_full));
            }
            Self::Refused(record) => {
                bytes.push(REFUSED);
                bytes.extend(&record[..record.len().min(MESSAGE_BYTES_MAX - 1)]);
            }
        }
        bytes
    }

    /// Reads a message.
    ///
    /// # Errors
    ///
    /// [`Malformed`] for an unknown kind, a wrong length or text that is not
    /// UTF-8.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        let message = match reader.byte()? {
            TERMINAL => Self::Terminal,
            STARTED => Self::Started {
                view_us: reader.u64()?,
                confined_us: reader.u64()?,
                filter_us: reader.u64()?,
                running_us: reader.u64()?,
            },
            FAILED => Self::Failed(Failure {
                kind: match reader.byte()? {
                    0 => FailureKind::Jail,
                    1 => FailureKind::NotFound,
                    2 => FailureKind::NotExecutable,
                    3 => FailureKind::Directory,
                    _ => return Err(Malformed),
                },
                errno: reader.i32()?,
                step: reader.text()?,
                text: reader.text()?,
            }),
            STOPPED => Self::Stopped { signal: reader.i32()? },
            ENDED => {
                let kind = reader.byte()?;
                let number = reader.i32()?;
                let end = match kind {
                    0 => End::Exited(u8::try_from(number).map_err(|_| Malformed)?),
                    1 => End::Signalled(number),
                    _ => return Err(Malformed),
                };
                let (cpu_us, max_rss_kib) = (reader.u64()?, reader.u64()?);
                let private_space_full = match reader.byte()? {
                    0 => false,
                    1 => true,
                    _ => return Err(Malformed),
                };
                Self::Ended { end, cpu_us, max_rss_kib, private_space_full }
            }
            REFUSED => Self::Refused(std::mem::take(&mut reader.0).to_vec()),
            _ => return Err(Malformed),
        };
        if reader.0.is_empty() { Ok(message) } else { Err(Malformed) }
    }
}

/// Takes values off the front of a slice.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*head)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn i32(&mut self) -> Result<i32, Malformed> {
        self.take().map(i32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<String, Malformed> {
        let length = usize::from(u16::from_le_bytes(self.take()?));
        let (head, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        String::from_utf8(head.to_vec()).map_err(|_| Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn messages() -> impl Strategy<Value = Message> {
        let failure =
            (0..4_u8, ".{0,40}", ".{0,40}", any::<i32>()).prop_map(|(kind, step, text, errno)| {
                let kind = match kind {
                    0 => FailureKind::Jail,
                    1 => FailureKind::NotFound,
                    2 => FailureKind::NotExecutable,
                    _ => FailureKind::Directory,
                };
                Message::Failed(Failure { kind, step, text, errno })
            });
        let end =
            prop_oneof![any::<u8>().prop_map(End::Exited), any::<i32>().prop_map(End::Signalled)];
        prop_oneof![
            Just(Message::Terminal),
            any::<(u64, u64, u64, u64)>().prop_map(
                |(view_us, confined_us, filter_us, running_us)| {
                    Message::Started { view_us, confined_us, filter_us, running_us }
                }
            ),
            failure,
            any::<i32>().prop_map(|signal| Message::Stopped { signal }),
            (end, any::<u64>(), any::<u64>(), any::<bool>()).prop_map(
                |(end, cpu_us, rss, full)| {
                    Message::Ended { end, cpu_us, max_rss_kib: rss, private_space_full: full }
                }
            ),
            proptest::collection::vec(any::<u8>(), 0..100).prop_map(Message::Refused),
        ]
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(message in messages()) {
            prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            if let Ok(message) = Message::decode(&bytes) {
                prop_assert_eq!(message.encode(), bytes);
            }
        }
    }

    #[test]
    fn requests_are_read_as_written() {
        let requests = [
            Request::Signal(15),
            Request::Resume { front: true },
            Request::Resume { front: false },
        ];
        for request in requests {
            assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
        assert_eq!(Request::decode(&[RESUME, 2, 0, 0, 0]), Err(Malformed));
        assert_eq!(Request::decode(&[SIGNAL, 2, 0, 0, 0, 0]), Err(Malformed));
        assert_eq!(Request::decode(&[]), Err(Malformed));
    }

    #[test]
    fn trailing_bytes_are_refused() {
        let mut bytes = Message::Terminal.encode();
        bytes.push(0);
        assert_eq!(Message::decode(&bytes), Err(Malformed));
    }
}
