//! The gate before a command: what its sandbox has to ask for is asked, and held meanwhile.

use super::{Inside, InsideError};
use crate::approvals::{Approvals, Outcome, Question, Status};
use crate::oversight::Recorded;
use atoll_api::approval::ApprovalWhat;
use atoll_api::exec::StartExec;
use atoll_api::id::ExecId;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Longest name of a command, in bytes; a hash stands for the rest.
const NAME_BYTES_MAX: usize = 1024;

/// Who is asked, and how long a request waits for the answer.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    pub(crate) approvals: Approvals,
    pub(crate) hold: Duration,
}

/// Why a command may not run now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// Nobody has decided yet.
    Pending,
    /// Somebody has denied it, and perhaps said why.
    Denied(Option<String>),
    /// Nobody decided in time.
    Expired,
}

impl Refused {
    /// The word for it, in `details.reason`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Pending => "approval-pending",
            Self::Denied(_) => "approval-denied",
            Self::Expired => "approval-expired",
        }
    }
}

impl Inside {
    /// Waits until a command may run, as far as it has to be asked for.
    pub(super) async fn pass(
        &self,
        exec: ExecId,
        request: &StartExec,
        line: &Recorded,
    ) -> Result<(), InsideError> {
        let Some(gate) = &self.gate else { return Ok(()) };
        let asks = |view: &atoll_api::sandbox::Sandbox| {
            view.exec_ask.iter().find(|pattern| pattern.matches(request)).cloned()
        };
        let Some(pattern) = asks(&self.view.borrow()) else { return Ok(()) };
        // One that is sent again runs nothing.
        if request.id.is_some() && self.exec(exec).await.is_ok() {
            return Ok(());
        }
        let question = Question {
            sandbox: Some(self.id),
            asked_by: None,
            what: ApprovalWhat::Exec { argv: line.argv().to_vec() },
            rule: format!("exec.ask: {pattern}"),
            name: name(line, request),
        };
        let until = Instant::now() + gate.hold;
        let (approval, refused) = loop {
            let asked = gate.approvals.ask(question.clone()).await;
            let asked = asked.map_err(|source| InsideError::Ask { id: self.id, source })?;
            let approval = asked.id;
            let refused = match asked.status {
                Status::Approved(_) => return Ok(()),
                Status::Denied(reason) => Refused::Denied(reason),
                Status::Pending => {
                    match timeout_at(until, gate.approvals.decided(approval)).await {
                        Ok(Outcome::Approved(_)) => return Ok(()),
                        Ok(Outcome::Taken) => continue,
                        Ok(Outcome::Denied(reason)) => Refused::Denied(reason),
                        Ok(Outcome::Expired) => Refused::Expired,
                        Ok(Outcome::ShuttingDown) | Err(_) => Refused::Pending,
                    }
                }
            };
            break (approval, refused);
        };
        let id = self.id;
        Err(InsideError::NotApproved { id, approval, pattern: pattern.to_string(), refused })
    }
}

/// What a decision about a command holds for: its words and its user, without secrets.
fn name(line: &Recorded, request: &StartExec) -> String {
    let mut name = match request.user {
        atoll_api::exec::User::User => String::new(),
        atoll_api::exec::User::Root => "root: ".to_owned(),
    };
    let words: Vec<String> = line.argv().iter().map(|word| quoted(word)).collect();
    name += &words.join(" ");
    if name.len() > NAME_BYTES_MAX || line.is_cut() {
        let mut digest = Sha256::new();
        for word in request.command.iter().flatten() {
            digest.update(word.as_bytes());
            digest.update([0]);
        }
        digest.update(request.shell.as_deref().unwrap_or_default());
        name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
        name += " sha256:";
        for byte in digest.finalize() {
            // Writing to a string cannot fail.
            write!(name, "{byte:02x}").unwrap_or_default();
        }
    }
    name
}

/// A word as a shell would need it, so that two command lines never read alike.
fn quoted(word: &str) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./=:@%+,".contains(&b);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_command_lines_have_one_name() {
        let line = |words: &[&str]| -> String {
            words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line(&["git", "push", "a b"]), "git push 'a b'");
        assert_ne!(line(&["a", "b c"]), line(&["a", "b", "c"]));
        assert_ne!(line(&["a", "'b' c"]), line(&["a", "b", "c"]));
        assert_ne!(line(&["a", ""]), line(&["a"]));
    }
}
