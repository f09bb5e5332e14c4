//! Asking on the terminal: for a yes, and for what nobody is to see.

use crate::error::CliError;
use atoll_store::secret::VALUE_BYTES_MAX;
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr,
};
use std::io::{self, BufRead as _, Write as _};
use std::os::fd::AsFd as _;
use zeroize::Zeroizing;

/// Exit status of who was interrupted, as a shell has it.
const EXIT_INTERRUPTED: u8 = 130;

/// Asks on standard error whether something is to be done; only a yes that is typed from then on
/// is one.
///
/// # Errors
///
/// The question cannot be shown, or the answer not be read.
pub(crate) fn is_confirmed(question: &str) -> io::Result<bool> {
    // What was typed before is no answer.
    tcflush(io::stdin(), QueueSelector::IFlush).ok();
    io::stderr().write_all(format!("{question} [y/N] ").as_bytes())?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Puts the terminal back as it was, whatever happens.
struct Restore(Termios);

impl Drop for Restore {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        tcsetattr(io::stdin().as_fd(), OptionalActions::Flush, &self.0).unwrap_or_default();
        writeln!(io::stderr()).unwrap_or_default();
    }
}

/// Asks for a line on the terminal that standard input is, and does not show it.
pub(crate) fn unseen(question: &str) -> Result<Zeroizing<Vec<u8>>, CliError> {
    let failed =
        |error: rustix::io::Errno| CliError::new("cannot ask on the terminal").because(error);
    let stdin = io::stdin();
    let before = tcgetattr(stdin.as_fd()).map_err(failed)?;
    let mut quiet = before.clone();
    // Without signals, too: one would leave the terminal as it is now.
    quiet.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
    write!(io::stderr(), "{question}").unwrap_or_default();
    let restore = Restore(before);
    tcsetattr(stdin.as_fd(), OptionalActions::Flush, &quiet).map_err(failed)?;
    let mut line = Line::default();
    loop {
        let mut byte = Zeroizing::new([0]);
        let read = match rustix::io::read(stdin.as_fd(), byte.as_mut_slice()) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other.map_err(failed)?,
        };
        match if read == 0 { Key::End } else { line.press(byte[0]) } {
            Key::More => {}
            Key::End => break,
            Key::Interrupt => {
                drop(restore);
                return Err(CliError::new("interrupted").exit_with(EXIT_INTERRUPTED));
            }
        }
    }
    Ok(line.0)
}

/// What is typed. A byte more than a secret may have is kept, so that it is too long.
struct Line(Zeroizing<Vec<u8>>);

impl Default for Line {
    fn default() -> Self {
        Self(Zeroizing::new(Vec::with_capacity(VALUE_BYTES_MAX + 1)))
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Key {
    More,
    End,
    Interrupt,
}

impl Line {
    fn press(&mut self, byte: u8) -> Key {
        match byte {
            b'\r' | b'\n' | 0x04 => return Key::End,
            // ^C, ^\
            0x03 | 0x1c => return Key::Interrupt,
            // A whole character goes.
            0x08 | 0x7f => while self.0.pop().is_some_and(|gone| gone & 0xc0 == 0x80) {},
            // ^U
            0x15 => self.0.clear(),
            byte if self.0.len() <= VALUE_BYTES_MAX => self.0.push(byte),
            _ => {}
        }
        Key::More
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_can_be_corrected() {
        let typed = |text: &str| {
            let mut line = Line::default();
            let last = text.bytes().map(|byte| line.press(byte)).find(|key| *key != Key::More);
            (String::from_utf8(line.0.to_vec()).unwrap(), last)
        };
        assert_eq!(typed("ab\x7fc\n"), ("ac".to_owned(), Some(Key::End)));
        assert_eq!(typed("aé\x7f\x08\x08b\r"), ("b".to_owned(), Some(Key::End)));
        assert_eq!(typed("wrong\x15right\x04"), ("right".to_owned(), Some(Key::End)));
        assert_eq!(typed("a\x03"), ("a".to_owned(), Some(Key::Interrupt)));
        let long = "x".repeat(VALUE_BYTES_MAX + 9);
        assert_eq!(typed(&long).0.len(), VALUE_BYTES_MAX + 1);
    }
}
