//! Asking for an exec.

use crate::id::ExecId;
use crate::object::object;
use crate::octets::Octets;
use crate::sandbox::{Env, InvalidRequest, NUMBER_MAX, within};
use serde::{Deserialize, Deserializer, Serialize};

/// Longest that a request waits for the end of an exec, in milliseconds.
pub const WAIT_MS_MAX: u64 = 3_600_000;
/// Longest command in bytes: its words with a NUL behind each, or a text of shell.
pub const ARGUMENTS_BYTES_MAX: usize = 512 * 1024;
/// Most words of a command.
pub const ARGUMENTS_COUNT_MAX: usize = 64 * 1024;
/// Longest name of an exec or of a session, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// Fewest bytes that may be kept of one stream.
pub const KEEP_BYTES_MIN: u64 = 4 * 1024;
/// Kept of one stream where nothing is said, in bytes.
pub const KEEP_BYTES_DEFAULT: u64 = 1024 * 1024;
/// Most bytes that may be kept of one stream.
pub const KEEP_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Asks for a command to be run. Either `command` or `shell` is there.
///
/// `{"shell": "npm test"}` is such a request, and so is
/// `{"command": ["python3", "-"], "stdin": "pipe", "timeout_ms": 60000}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartExec {
    /// Its id. A request that is sent again under the same id runs nothing a second
    /// time: it gives the exec that is there, if that is of the same command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ExecId>,
    /// The program, looked for along PATH if it has no slash, and its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 65536)]
    pub command: Option<Vec<Octets>>,
    /// A text that `/bin/sh -c` runs, or bash where there is a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 524288)]
    pub shell: Option<String>,
    /// The session that it is part of, which its first exec makes: `shell` begins with
    /// the directory, variables, functions and options that the exec before it left. A
    /// session runs one exec at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_-]+$")]
    pub session: Option<String>,
    /// As whom it runs.
    #[serde(default)]
    pub user: User,
    /// Where it starts; the sandbox's working directory where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<Octets>,
    /// Variables beside and before those of the sandbox.
    #[serde(default)]
    pub env: Env,
    /// What its standard input is. A terminal is its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Stdin>,
    /// Run it in a terminal of this size; what that shows is `stdout`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_object")]
    pub terminal: Option<TerminalSize>,
    /// Killed after so many milliseconds, with all that it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 9007199254740991u64)]
    pub timeout_ms: Option<u64>,
    /// How many bytes are kept of each stream: a quarter from its head, the rest from its
    /// tail. 1 MiB where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 4096, maximum = 67108864)]
    pub keep_bytes: Option<u64>,
    /// What becomes of it when the request that started it ends first: one that waits
    /// for its end, or that follows it.
    #[serde(default)]
    pub on_disconnect: OnDisconnect,
    /// A name for people, shown wherever the exec is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64)]
    pub name: Option<String>,
}

/// Reads an object where there may be none.
fn some_object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(transparent, bound = "T: Deserialize<'de>")]
    struct Whole<T>(#[serde(deserialize_with = "object")] T);
    Option::<Whole<T>>::deserialize(deserializer).map(|found| found.map(|Whole(value)| value))
}

/// As whom a command runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum User {
    /// The sandbox's ordinary user.
    #[default]
    User,
    /// The sandbox's root, where its tier has one.
    Root,
}

/// What a command's standard input is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stdin {
    /// At its end.
    #[default]
    Closed,
    /// A pipe that is fed by requests.
    Pipe,
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalSize {
    /// Lines.
    #[schema(minimum = 1, maximum = 65535)]
    pub rows: u16,
    /// Characters in a line.
    #[schema(minimum = 1, maximum = 65535)]
    pub columns: u16,
}

/// What becomes of an exec when the request that started it ends before it does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnect {
    /// It goes on, and can be followed again.
    #[default]
    GoOn,
    /// It is killed, with all that it started.
    Kill,
}

impl StartExec {
    /// Checks everything that can be judged without knowing the sandbox.
    ///
    /// # Errors
    /// Gives the first field that is wrong, with the limit that it breaks.
    pub fn validate(&self) -> Result<(), InvalidRequest> {
        match (&self.command, &self.shell) {
            (Some(_), Some(_)) => return malformed("shell", "is there beside command"),
            (None, None) => return malformed("command", "is missing, and so is shell"),
            (Some(words), None) if words.first().is_none_or(|word| word.as_bytes().is_empty()) => {
                return malformed("command", "names no program");
            }
            (Some(words), None) => {
                let bytes = words.iter().map(|word| word.as_bytes().len() + 1).sum();
                not_longer("command", bytes, ARGUMENTS_BYTES_MAX)?;
                if words.len() > ARGUMENTS_COUNT_MAX {
                    return malformed("command", "has more than 65536 words");
                }
                if self.session.is_some() {
                    return malformed("command", "is there beside session, which runs shell");
                }
            }
            (None, Some(text)) => {
                not_longer("shell", text.len(), ARGUMENTS_BYTES_MAX)?;
                if text.is_empty() || text.contains('\0') {
                    return malformed("shell", "is empty or contains a NUL");
                }
            }
        }
        self.env.validate()?;
        self.validate_names()?;
        if self.directory.as_ref().is_some_and(|path| path.as_bytes().is_empty()) {
            return malformed("directory", "is empty");
        }
        if self.terminal.is_some() && self.stdin == Some(Stdin::Closed) {
            return malformed("stdin", "is closed, and a terminal is not");
        }
        if let Some(size) = self.terminal {
            size.validate("terminal.rows", "terminal.columns")?;
        }
        for (field, value, least, most) in [
            ("timeout_ms", self.timeout_ms, 1, NUMBER_MAX),
            ("keep_bytes", self.keep_bytes, KEEP_BYTES_MIN, KEEP_BYTES_MAX),
        ] {
            if let Some(found) = value {
                within(field, found, least, most)?;
            }
        }
        Ok(())
    }

    fn validate_names(&self) -> Result<(), InvalidRequest> {
        if let Some(session) = &self.session {
            not_longer("session", session.len(), NAME_BYTES_MAX)?;
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
            if session.is_empty() || !session.bytes().all(is_plain) {
                return malformed("session", "has other than letters, digits, _ and -");
            }
        }
        if let Some(name) = &self.name {
            not_longer("name", name.len(), NAME_BYTES_MAX)?;
            if name.is_empty() || name.chars().any(char::is_control) {
                return malformed("name", "is empty or contains a control character");
            }
        }
        Ok(())
    }
}

impl TerminalSize {
    pub(super) fn validate(self, rows: &str, columns: &str) -> Result<(), InvalidRequest> {
        within(rows, self.rows.into(), 1, u16::MAX.into())?;
        within(columns, self.columns.into(), 1, u16::MAX.into())
    }
}

fn not_longer(field: &str, found_bytes: usize, limit_bytes: usize) -> Result<(), InvalidRequest> {
    if found_bytes > limit_bytes {
        let field = field.to_owned();
        return Err(InvalidRequest::TooLong { field, found_bytes, limit_bytes });
    }
    Ok(())
}

fn malformed(field: &str, reason: &'static str) -> Result<(), InvalidRequest> {
    Err(InvalidRequest::Malformed { field: field.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[track_caller]
    fn read(request: Value) -> StartExec {
        serde_json::from_value(request).unwrap()
    }

    #[test]
    fn what_is_enough_is_little() {
        for request in [
            json!({"command": ["true"]}),
            json!({"command": [{"hex": "ff"}, ""]}),
            json!({"shell": "npm test", "session": "main", "env": {"CI": "1"}}),
            json!({"command": ["sh"], "terminal": {"rows": 24, "columns": 80}, "stdin": "pipe"}),
            json!({"command": ["cat"], "stdin": "pipe", "timeout_ms": 1, "keep_bytes": 4096}),
        ] {
            let read = read(request.clone());
            assert_eq!(read.validate(), Ok(()), "{request}");
            let again = serde_json::to_value(&read).unwrap();
            assert_eq!(serde_json::from_value::<StartExec>(again).unwrap(), read);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let long = "x".repeat(65);
        for (request, field) in [
            (json!({}), "command"),
            (json!({"command": []}), "command"),
            (json!({"command": [""]}), "command"),
            (json!({"command": ["a"], "shell": "a"}), "shell"),
            (json!({"command": ["a"], "session": "main"}), "command"),
            (json!({"command": ["x".repeat(ARGUMENTS_BYTES_MAX)]}), "command"),
            (json!({"command": vec!["x"; ARGUMENTS_COUNT_MAX + 1]}), "command"),
            (json!({"shell": ""}), "shell"),
            (json!({"shell": "a\0"}), "shell"),
            (json!({"shell": "x".repeat(ARGUMENTS_BYTES_MAX + 1)}), "shell"),
            (json!({"shell": "a", "session": "a b"}), "session"),
            (json!({"shell": "a", "session": long}), "session"),
            (json!({"shell": "a", "name": "a\n"}), "name"),
            (json!({"shell": "a", "name": long}), "name"),
            (json!({"shell": "a", "directory": ""}), "directory"),
            (json!({"shell": "a", "env": {"A=B": ""}}), "env"),
            (json!({"shell": "a", "timeout_ms": 0}), "timeout_ms"),
            (json!({"shell": "a", "timeout_ms": 1_u64 << 53}), "timeout_ms"),
            (json!({"shell": "a", "keep_bytes": 4095}), "keep_bytes"),
            (json!({"shell": "a", "keep_bytes": 67_108_865}), "keep_bytes"),
            (json!({"shell": "a", "terminal": {"rows": 0, "columns": 1}}), "terminal.rows"),
            (json!({"shell": "a", "terminal": {"rows": 1, "columns": 0}}), "terminal.columns"),
            (
                json!({"shell": "a", "terminal": {"rows": 1, "columns": 1}, "stdin": "closed"}),
                "stdin",
            ),
        ] {
            let error = read(request.clone()).validate().unwrap_err();
            assert_eq!(error.field(), field, "{request}: {error}");
        }
        for request in [
            json!({"command": ["a"], "cwd": "/"}),
            json!({"command": ["a\0"]}),
            json!({"command": ["a"], "terminal": [24, 80]}),
        ] {
            assert!(serde_json::from_value::<StartExec>(request.clone()).is_err(), "{request}");
        }
    }
}
