//! Patterns of commands that a person is asked about.
//!
//! A pattern is words, as in `git push *`. A `*` in a word stands for any text, and as the last word
//! for any words or none. A program without a slash is that of any directory. Commands of a shell's
//! text are looked at one by one, as far as they can be told without running it.
//!
//! This is a courtesy to whoever means well and no wall: who can write a script can call anything by
//! another name.

use crate::exec::StartExec;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use std::fmt;
use std::str::FromStr;

/// Longest pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 256;
/// Most patterns of a sandbox.
pub const PATTERNS_COUNT_MAX: usize = 64;

/// Shells whose text is looked at.
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ash"];

/// Why a text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a pattern is 1 to {PATTERN_BYTES_MAX} bytes of words without control characters")]
pub struct ExecPatternError;

/// A pattern of commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExecPattern(String);

impl ExecPattern {
    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a request runs a command that falls under it, as far as that can be told.
    pub fn matches(&self, request: &StartExec) -> bool {
        let Some(command) = &request.command else {
            return self.is_in(request.shell.as_deref().unwrap_or_default());
        };
        let words: Vec<String> = command.iter().map(ToString::to_string).collect();
        let is_shell = words.first().is_some_and(|word| SHELLS.contains(&base(word)));
        let text = words.get(1).filter(|flag| is_shell && flag.starts_with('-'));
        let text = text.filter(|flag| flag.contains('c')).and_then(|_| words.get(2));
        self.fits(&words) || text.is_some_and(|text| self.is_in(text))
    }

    fn is_in(&self, text: &str) -> bool {
        commands(text).iter().any(|words| self.fits(words))
    }

    fn fits(&self, words: &[String]) -> bool {
        let pattern: Vec<&str> = self.0.split_whitespace().collect();
        let (pattern, has_rest) = match pattern.split_last() {
            Some((&"*", before)) if !before.is_empty() => (before, true),
            _ => (&pattern[..], false),
        };
        if words.len() < pattern.len() || (words.len() > pattern.len() && !has_rest) {
            return false;
        }
        pattern.iter().zip(words).enumerate().all(|(place, (pattern, word))| {
            let word = if place == 0 && !pattern.contains('/') { base(word) } else { word };
            is_like(pattern.as_bytes(), word.as_bytes())
        })
    }
}

fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Whether a text is like a pattern with `*`; in a time that grows with both.
fn is_like(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p, t));
            p += 1;
        } else if p < pattern.len() && pattern[p] == text[t] {
            (p, t) = (p + 1, t + 1);
        } else if let Some((place, taken)) = star {
            star = Some((place, taken + 1));
            (p, t) = (place + 1, taken + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// The simple commands of a shell's text, without assignments before them.
fn commands(text: &str) -> Vec<Vec<String>> {
    let (mut all, mut words) = (Vec::new(), Vec::<String>::new());
    let mut word: Option<String> = None;
    let mut quote = None;
    // The quotes that commands within commands stand in.
    let (mut around, mut is_in_ticks) = (Vec::new(), false);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), close) if open == close => quote = None,
            (Some('"') | None, '\\') => {
                if let Some(next) = letters.next() {
                    word.get_or_insert_default().push(next);
                }
            }
            // What a double quote has of another command is one all the same.
            (Some('"') | None, '`' | '(' | ')') | (None, ';' | '&' | '|' | '\n' | '{' | '}') => {
                words.extend(word.take().filter(|word| word != "$"));
                all.push(std::mem::take(&mut words));
                let begins = letter == '(' || (letter == '`' && !is_in_ticks);
                let ends = letter == ')' || (letter == '`' && is_in_ticks);
                is_in_ticks ^= letter == '`';
                if begins {
                    around.push(quote.take());
                } else if ends {
                    quote = around.pop().flatten();
                }
            }
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    all.push(words);
    let is_before = |word: &String| {
        let name = word.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        }) || matches!(
            word.as_str(),
            "if" | "then" | "else" | "do" | "while" | "until" | "!" | "exec"
        )
    };
    let without = |words: Vec<String>| words.into_iter().skip_while(is_before).collect::<Vec<_>>();
    all.into_iter().map(without).filter(|words| !words.is_empty()).collect()
}

impl fmt::Display for ExecPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ExecPattern {
    type Err = ExecPatternError;

    fn from_str(text: &str) -> Result<Self, ExecPatternError> {
        let is_short = text.len() <= PATTERN_BYTES_MAX;
        let is_pattern = is_short && !text.trim().is_empty() && !text.chars().any(char::is_control);
        if is_pattern { Ok(Self(text.to_owned())) } else { Err(ExecPatternError) }
    }
}

impl<'de> Deserialize<'de> for ExecPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

crate::schema::string_schema!(
    ExecPattern,
    "Words of a command; `*` stands for any text in a word, and as the last word for any words.",
    Some(r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"),
    None,
    "git push *"
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::octets::Octets;
    use proptest::prelude::*;

    fn words(pattern: &str, command: &[&str]) -> bool {
        let command = command.iter().map(|word| Octets::try_from(*word).unwrap()).collect();
        let request = StartExec { command: Some(command), ..StartExec::default() };
        pattern.parse::<ExecPattern>().unwrap().matches(&request)
    }

    fn shell(pattern: &str, text: &str) -> bool {
        let request = StartExec { shell: Some(text.to_owned()), ..StartExec::default() };
        pattern.parse::<ExecPattern>().unwrap().matches(&request)
    }

    #[test]
    fn words_are_compared_one_by_one() {
        assert!(words("git push *", &["git", "push"]));
        assert!(words("git push *", &["/usr/bin/git", "push", "origin", "main"]));
        assert!(words("git push", &["git", "push"]));
        assert!(words("npm run deploy-*", &["npm", "run", "deploy-now"]));
        assert!(words("*", &["true"]));
        assert!(words("/opt/tool *", &["/opt/tool"]));
        assert!(!words("git push *", &["git", "pull"]));
        assert!(!words("git push", &["git", "push", "origin"]));
        assert!(!words("git push *", &["git"]));
        assert!(!words("git push *", &["mygit", "push"]));
        assert!(!words("/opt/tool *", &["tool"]));
    }

    #[test]
    fn commands_in_a_text_of_shell_are_found() {
        for text in [
            "git push",
            "cd x && git push origin main",
            "A=b C=d git push; true",
            "(git push)",
            "echo $(git push)",
            "echo \"$(git push)\"",
            "echo `git push`",
            "echo \"$(true)\"; git push",
            "echo \"`true`\" && git push",
            "true | git push",
            "if true; then git push; fi",
            "'git' \"push\" x",
            "g\\it push",
            "true\n  git push\n",
        ] {
            assert!(shell("git push *", text), "{text}");
            assert!(words("git push *", &["bash", "-lc", text]), "{text}");
        }
        for text in ["git pull", "echo git push", "echo 'git push'", "# \"", ""] {
            assert!(!shell("git push *", text), "{text}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        let long = "x".repeat(PATTERN_BYTES_MAX + 1);
        for text in ["", "  ", "a\nb", "a\u{1b}", &long] {
            assert!(text.parse::<ExecPattern>().is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_ends_in_an_answer(text in "\\PC{0,60}|[a-z'\"\\\\;&|()`$ *]{0,60}") {
            shell("a* *", &text);
        }

        #[test]
        fn a_pattern_is_like_itself(text in "[a-z*]{0,20}") {
            prop_assert!(is_like(text.as_bytes(), text.as_bytes()));
            prop_assert!(is_like(b"*", text.as_bytes()));
        }
    }
}
