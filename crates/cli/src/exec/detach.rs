//! The keys that leave a terminal: Ctrl-] and then d.
//!
//! No shell and few programs use Ctrl-] (telnet(1) has it for the same purpose), and what
//! is followed by something else, or by nothing for a moment, goes to the command.

use bytes::Bytes;

/// How they are called.
pub(crate) const NAME: &str = "Ctrl-] d";

const FIRST: u8 = 0x1d;
const SECOND: u8 = b'd';

/// Looks for them in what is typed.
#[derive(Debug, Default)]
pub(super) struct Keys {
    is_held: bool,
}

/// What is to be done with keys.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Typed {
    /// These go to the command.
    pub(super) keys: Bytes,
    /// Then it is left.
    pub(super) leaves: bool,
}

impl Keys {
    /// Whether the first of them was pressed, and it is not known what follows.
    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    pub(super) fn take(&mut self, typed: &Bytes) -> Typed {
        if !self.is_held && !typed.contains(&FIRST) {
            return Typed { keys: typed.clone(), leaves: false };
        }
        let mut keys = Vec::new();
        for &key in typed {
            if std::mem::take(&mut self.is_held) {
                if key == SECOND {
                    return Typed { keys: keys.into(), leaves: true };
                }
                keys.push(FIRST);
            }
            if key == FIRST {
                self.is_held = true;
            } else {
                keys.push(key);
            }
        }
        Typed { keys: keys.into(), leaves: false }
    }

    /// What was held, since nothing follows.
    pub(super) fn release(&mut self) -> Bytes {
        let keys: &'static [u8] = if std::mem::take(&mut self.is_held) { &[FIRST] } else { &[] };
        Bytes::from_static(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(pieces: &[&'static str]) -> (String, bool) {
        let (mut keys, mut all) = (Keys::default(), Vec::new());
        for piece in pieces {
            let typed = keys.take(&Bytes::from_static(piece.as_bytes()));
            all.extend_from_slice(&typed.keys);
            if typed.leaves {
                return (String::from_utf8(all).unwrap(), true);
            }
        }
        all.extend_from_slice(&keys.release());
        (String::from_utf8(all).unwrap(), false)
    }

    #[test]
    fn only_the_sequence_leaves_and_nothing_else_is_lost() {
        for (pieces, expected) in [
            (&["ls\r"][..], ("ls\r", false)),
            (&["a\x1dd"], ("a", true)),
            (&["a\x1d", "d", "x"], ("a", true)),
            (&["\x1dx"], ("\x1dx", false)),
            (&["\x1d"], ("\x1d", false)),
            (&["\x1d\x1dd"], ("\x1d", true)),
            (&["\x1d", "\x1d", "x"], ("\x1d\x1dx", false)),
            (&["d\x1dD"], ("d\x1dD", false)),
        ] {
            let (keys, leaves) = expected;
            assert_eq!(typed(pieces), (keys.to_owned(), leaves), "{pieces:?}");
        }
    }
}
