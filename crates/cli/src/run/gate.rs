//! The question before a command that the policy has a person approve: nothing has been started yet.

use crate::env;
use crate::error::CliError;
use crate::policy::load::Loaded;
use crate::supervise::{Answer, Choices, Dialog, Question, Terminal};
use atoll_api::exec::{ExecPattern, StartExec};
use atoll_api::octets::Octets;
use atoll_api::policy::Sourced;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

/// How long somebody may take to answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Has a person approve the command, if a pattern of the policy says so.
///
/// # Errors
///
/// It was not approved, or there is nobody to be asked.
pub(crate) fn pass(loaded: &Loaded, command: &[OsString]) -> Result<(), CliError> {
    let patterns = &loaded.merged.policy.exec_ask;
    if patterns.is_empty() {
        return Ok(());
    }
    let request = StartExec { command: Some(words(command)?), ..StartExec::default() };
    let Some(asks) = patterns.iter().find(|pattern| pattern.value.matches(&request)) else {
        return Ok(());
    };
    let refused = |code: &str, message: String| {
        CliError::new(format!("{message}; nothing was started [{code}]"))
    };
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        let message = format!(
            "{:?} in exec.ask ({}) has a person approve this command, and there is no terminal to \
             ask on",
            asks.value.as_str(),
            asks.origin
        );
        return Err(refused("needs-approval", message).hint("the user runs it on a terminal"));
    }
    let answer = ask(asks, command)
        .map_err(|error| CliError::new("cannot ask on the terminal").because(error))?;
    match answer {
        Answer::Once | Answer::Run => Ok(()),
        Answer::No => Err(refused("approval-denied", "it was not approved".to_owned())),
        Answer::Late => Err(refused("approval-expired", "nobody approved it in time".to_owned())),
    }
}

/// The command as the patterns see it: all of it, or none.
fn words(command: &[OsString]) -> Result<Vec<Octets>, CliError> {
    let words: Result<_, _> = command.iter().map(|word| Octets::try_from(word.clone())).collect();
    words.map_err(|error| {
        CliError::new("the command cannot be held against exec.ask; nothing was started")
            .because(format!("a word of it {error}"))
    })
}

fn question(asks: &Sourced<ExecPattern>, command: &[OsString]) -> Question {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    Question {
        number: 0,
        // What is longest comes last.
        about: vec![
            "atoll: a question of the sandbox's policy".to_owned(),
            format!("  rule:   exec.ask {:?} ({})", asks.value.as_str(), asks.origin),
            format!("  what:   {}", words.join(" ")),
        ],
        asks: "run it".to_owned(),
        choices: Choices::Once,
        until: Instant::now() + PATIENCE,
    }
}

fn ask(asks: &Sourced<ExecPattern>, command: &[OsString]) -> io::Result<Answer> {
    let mut terminal = Terminal::open(io::stdin().as_fd(), true)?;
    let is_dumb = env::TERM.get().is_none_or(|term| term == "dumb");
    // It has its own modes again when this ends.
    terminal.enter_raw()?;
    let columns = terminal.size().ws_col;
    let (mut dialog, text) = Dialog::new(question(asks, command), columns, is_dumb, Instant::now());
    // A terminal that shows nothing gets no answer either.
    let show = |text: &str| io::stderr().write_all(text.as_bytes()).unwrap_or_default();
    show(&text);
    loop {
        let step = dialog.look_at_clock(Instant::now());
        show(&step.shown);
        if let Some(answer) = step.answer {
            return Ok(answer);
        }
        let left = dialog.alarm().saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap_or_default();
        let mut ready = [PollFd::from_borrowed_fd(terminal.fd(), PollFlags::IN)];
        match poll(&mut ready, Some(&left)) {
            Ok(0) | Err(Errno::INTR) => continue,
            other => other?,
        };
        let mut bytes = [0; 256];
        let count = match rustix::io::read(terminal.fd(), &mut bytes) {
            Err(Errno::INTR | Errno::AGAIN) => continue,
            other => other?,
        };
        if count == 0 {
            return Ok(Answer::No);
        }
        let step = dialog.press(&bytes[..count], Instant::now());
        show(&step.shown);
        if let Some(answer) = step.answer {
            return Ok(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    fn asks() -> Sourced<ExecPattern> {
        Sourced::built_in("sh *".parse().unwrap())
    }

    #[test]
    fn however_long_a_command_is_its_rule_and_its_end_are_shown() {
        let script = format!("true {}; rm -rf /srv", "\u{e9}".repeat(100_000));
        let command = ["sh", "-c", &script].map(OsString::from);
        let (_, text) = Dialog::new(question(&asks(), &command), 80, true, Instant::now());
        let text = text.replace("\r\n", "");
        let rule = text.find("rule:   exec.ask \"sh *\"").unwrap();
        let what = text.find("what:   sh -c true \\u{e9}").unwrap();
        assert!(rule < what, "{text}");
        assert!(text.contains(" characters left out ...] "), "{text}");
        assert!(text.ends_with("; rm -rf /srv"), "{text}");
    }

    #[test]
    fn a_command_that_cannot_be_read_is_not_held_against_less_than_all_of_it() {
        let command = ["sh", "-c", "a\0b"].map(OsString::from);
        let error = words(&command).unwrap_err();
        assert!(format!("{error:?}").contains("NUL"), "{error:?}");
        let odd = [OsStr::from_bytes(b"sh"), OsStr::from_bytes(b"\xff")].map(OsString::from);
        assert_eq!(words(&odd).unwrap().len(), 2);
    }
}
