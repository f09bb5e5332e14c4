//! Sessions: shells that keep their state between execs.
//!
//! There is no shell that waits. Each exec of a session is a shell of its own that
//! takes up what the last one left (directory, variables, functions, aliases,
//! options, mask) and leaves the same when it ends. So a command that hangs, is
//! killed or is no shell at all breaks nothing: the session is as it was before it;
//! output, errors and status are those of any exec.

use super::launch::Base;
use atoll_protocol::exec::{Command, SESSION_BYTES_MAX, User};
use atoll_protocol::octets::Octets;
use atoll_protocol::problem::{Code, Problem};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Takes up, runs and leaves: see there.
const WRAPPER: &str = include_str!("shell.bash");

/// The command that runs `command`, a text of shell, in a session.
pub(super) fn command(session: &str, command: &Command, base: &Base) -> Result<Command, Problem> {
    let invalid = |text: String| Problem::new(Code::Invalid, text);
    if !is_name(session) {
        let text = "letters, digits, dashes and underscores";
        return Err(invalid(format!("a session has 1 to {SESSION_BYTES_MAX} {text} as its id")));
    }
    let [script] = command.arguments.as_slice() else {
        return Err(invalid("in a session a command is one text of shell".to_owned()));
    };
    let sessions = match command.user {
        User::Workload => &base.sessions,
        User::Root => &base.root_sessions,
    };
    let state = sessions.join(session);
    make_directory(sessions).map_err(|error| {
        Problem::new(Code::Failed, format!("no place for the session's state: {error}"))
            .with_errno(error.raw_os_error())
    })?;
    let words = [b"bash", &b"--norc"[..], b"--noprofile", b"-c", WRAPPER.as_bytes(), b"bash"];
    let mut arguments: Vec<Octets> = words.into_iter().map(octets).collect::<Result<_, _>>()?;
    arguments.push(octets(state.as_os_str().as_encoded_bytes())?);
    arguments.push(octets(&before(command))?);
    arguments.push(script.clone());
    Ok(Command { arguments, ..command.clone() })
}

fn octets(bytes: &[u8]) -> Result<Octets, Problem> {
    Octets::new(bytes).map_err(|error| Problem::new(Code::Invalid, error.to_string()))
}

fn is_name(session: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=SESSION_BYTES_MAX).contains(&session.len()) && session.bytes().all(is_fine)
}

fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// What the request itself says of directory and variables, which holds over what
/// the session has.
fn before(command: &Command) -> Vec<u8> {
    let mut text = Vec::new();
    if let Some(directory) = &command.directory {
        text.extend(b"cd -- ");
        quote(directory, &mut text);
        text.extend(b" || exit\n");
    }
    for (name, value) in &command.environment {
        match value {
            Some(value) => {
                text.extend(b"export ");
                text.extend(name.as_bytes());
                text.push(b'=');
                quote(value, &mut text);
            }
            None => {
                text.extend(b"unset -v ");
                text.extend(name.as_bytes());
            }
        }
        text.push(b'\n');
    }
    text
}

/// As one word of the shell, whatever is in it.
fn quote(word: &Octets, text: &mut Vec<u8>) {
    text.push(b'\'');
    for byte in word.as_bytes() {
        match byte {
            b'\'' => text.extend(br"'\''"),
            byte => text.push(*byte),
        }
    }
    text.push(b'\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_request_says_is_quoted() {
        let octets = |text: &str| Octets::try_from(text).unwrap();
        let command = Command {
            arguments: vec![octets("true")],
            environment: vec![(octets("A"), Some(octets("it's; $x"))), (octets("B"), None)],
            directory: Some(octets("/a b")),
            user: User::Workload,
        };
        let text = String::from_utf8(before(&command)).unwrap();
        assert_eq!(text, "cd -- '/a b' || exit\nexport A='it'\\''s; $x'\nunset -v B\n");
    }

    #[test]
    fn ids_of_sessions_are_names_of_files() {
        for name in ["a", "A-1_b"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".", "..", "a/b", "a b", &"x".repeat(SESSION_BYTES_MAX + 1)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
