//! How a failure of ours reaches the person: `error:`, `caused by:`, `hint:`.

use crate::status::Status;
use std::error::Error;
use std::io::Write as _;

/// Exit status when atoll itself failed, so that it cannot be mistaken for the
/// workload's own (124 timed out, 126 not executable, 127 not found).
pub(crate) const EXIT_OURS: u8 = 125;

/// A failure with what would help.
#[derive(Debug)]
pub(crate) struct CliError {
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    hints: Vec<String>,
    exit: u8,
    /// What is printed in place of the rest.
    json: Option<String>,
}

impl CliError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        let (source, hints, json) = (None, Vec::new(), None);
        Self { message: message.into(), source, hints, exit: EXIT_OURS, json }
    }

    /// One that is told to a program, as a line of JSON.
    pub(crate) fn json(line: String) -> Self {
        Self { json: Some(line), ..Self::new("") }
    }

    /// Keeps the cause; it is printed on a line of its own.
    pub(crate) fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    pub(crate) fn exit_with(mut self, exit: u8) -> Self {
        self.exit = exit;
        self
    }

    /// The whole text: the failure, its causes, what would help.
    pub(crate) fn text(&self) -> String {
        if let Some(line) = &self.json {
            return line.clone();
        }
        let mut text = format!("error: {}\n", self.message);
        let mut cause = self.source.as_ref().map(|source| source.as_ref() as &dyn Error);
        while let Some(error) = cause {
            text += &format!("caused by: {error}\n");
            cause = error.source();
        }
        for hint in &self.hints {
            text += &format!("hint: {hint}\n");
        }
        text
    }

    /// Prints the failure to stderr and gives the exit status.
    pub(crate) fn report(&self) -> Status {
        // A closed stderr leaves nobody to tell; the exit status still speaks.
        std::io::stderr().write_all(self.text().as_bytes()).ok();
        Status::from(self.exit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_and_hints_follow_the_message() {
        let cause = std::io::Error::from_raw_os_error(2);
        let error = CliError::new("cannot read the policy").because(cause).hint("write one");
        assert_eq!(
            error.text(),
            "error: cannot read the policy\n\
             caused by: No such file or directory (os error 2)\n\
             hint: write one\n"
        );
    }
}
