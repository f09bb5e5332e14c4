//! A question to whoever sits at the terminal, and the line that answers it: without a descriptor
//! and without a clock of its own.
//!
//! The program in the sandbox writes to the same terminal until the question comes, and whatever
//! the terminal sends looks like keys. So that nothing but a person answers:
//!
//! - what was pressed before the question is the program's, and what comes while it appears is
//!   dropped: an answer counts from when nothing has come for a while, and the last line is shown;
//! - an answer is a word and Enter. What holds anything but plain characters, as everything does by
//!   which a terminal reports something, is no answer, nor is what comes right behind it.

use crate::cut::cut;
use std::time::{Duration, Instant};

/// How long nothing must come before what comes is an answer.
const QUIET: Duration = Duration::from_millis(300);

/// Longest answer in bytes; more is not taken.
const LINE_BYTES_MAX: usize = 16;

/// Longest line that says what a question is about, before it is wrapped: a screen is not to be
/// filled.
const ABOUT_CHARS_MAX: usize = 4096;

/// Ends whatever sequence the program left unfinished, shows what was held back, gives lines all
/// of the screen, and has plain characters inserted nowhere. What is below is erased: it could
/// seem to be part of the question.
const PLAIN: &str =
    "\x18\x1b\\\x1b[?2026l\x1b[?69l\x1b7\x1b[r\x1b8\x1b[4l\x1b[0m\x1b(B\x0f\r\n\x1b[J";

/// What somebody is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Its number among those of this run.
    pub number: u64,
    /// Lines that say what it is about.
    pub about: Vec<String>,
    /// The last line up to the choices: what it comes to, since it is what is seen for certain.
    pub asks: String,
    /// What can be answered.
    pub choices: Choices,
    /// When no answer is waited for any more.
    pub until: Instant,
}

/// What can be answered to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choices {
    /// Once, in this run, or not.
    OnceOrRun,
    /// Now, or not.
    Once,
}

/// What was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Once,
    /// As long as the run goes on.
    Run,
    No,
    /// Nobody answered in time.
    Late,
}

/// A question that is on the screen.
#[derive(Debug)]
pub(crate) struct Dialog {
    question: Question,
    width: usize,
    line: Line,
}

#[derive(Debug)]
enum Line {
    /// Nothing counts before then, or later if something comes.
    Settles(Instant),
    /// What was typed so far.
    Typed(String),
}

/// What comes of what was pressed, or of time that went by.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    /// To be written to the terminal.
    pub(crate) shown: String,
    /// The end of the dialog.
    pub(crate) answer: Option<Answer>,
}

impl Dialog {
    /// A question, and the text that it begins with.
    pub(crate) fn new(
        question: Question,
        columns: u16,
        is_dumb: bool,
        now: Instant,
    ) -> (Self, String) {
        let width = match columns {
            0 => 79,
            columns => usize::from(columns).max(20) - 1,
        };
        let mut text = if is_dumb { "\r\n".to_owned() } else { PLAIN.to_owned() };
        for line in &question.about {
            // As it is shown, since a character may become ten.
            let line = cut(&plain(line), ABOUT_CHARS_MAX);
            for part in wrapped(&line, width) {
                text += part;
                text += "\r\n";
            }
        }
        (Self { question, width, line: Line::Settles(now + QUIET) }, text)
    }

    /// The number of its question.
    pub(crate) fn number(&self) -> u64 {
        self.question.number
    }

    /// When to tell it that time went by.
    pub(crate) fn alarm(&self) -> Instant {
        match self.line {
            Line::Settles(until) => until.min(self.question.until),
            Line::Typed(_) => self.question.until,
        }
    }

    /// Time went by.
    pub(crate) fn look_at_clock(&mut self, now: Instant) -> Step {
        if now >= self.question.until {
            return self.end(Answer::Late);
        }
        match self.line {
            Line::Settles(until) if until <= now => {
                self.line = Line::Typed(String::new());
                Step { shown: self.last_line(), answer: None }
            }
            Line::Settles(_) | Line::Typed(_) => Step::default(),
        }
    }

    /// Takes what came from the terminal.
    pub(crate) fn press(&mut self, bytes: &[u8], now: Instant) -> Step {
        let mut shown = String::new();
        for byte in bytes {
            let Line::Typed(line) = &mut self.line else { break };
            match byte {
                b'\r' | b'\n' => match meant(line, self.question.choices) {
                    Some(answer) => {
                        let end = self.end(answer);
                        return Step { shown: shown + &end.shown, ..end };
                    }
                    None => {
                        shown += "\r\nAnswer ";
                        shown += self.question.choices.words();
                        shown += ".\r\n";
                        self.line = Line::Settles(now + QUIET);
                    }
                },
                // ^C, ^D, ^\
                0x03 | 0x04 | 0x1c => {
                    let end = self.end(Answer::No);
                    return Step { shown: shown + &end.shown, ..end };
                }
                0x08 | 0x7f => {
                    if line.pop().is_some() {
                        shown += "\x08 \x08";
                    }
                }
                // ^U
                0x15 => {
                    shown += &"\x08 \x08".repeat(line.len());
                    line.clear();
                }
                b' '..=b'~' if line.len() < LINE_BYTES_MAX => {
                    line.push(char::from(*byte));
                    shown.push(char::from(*byte));
                }
                b' '..=b'~' => {}
                _ => {
                    // It reports something, and what follows belongs to it.
                    shown += "\r\n";
                    self.line = Line::Settles(now + QUIET);
                }
            }
        }
        if let Line::Settles(until) = &mut self.line {
            *until = now + QUIET;
        }
        Step { shown, answer: None }
    }

    fn end(&self, answer: Answer) -> Step {
        let said = match (answer, self.question.choices) {
            (Answer::Once, Choices::OnceOrRun) => "allowed once",
            (Answer::Once, Choices::Once) => "allowed",
            (Answer::Run, _) => "allowed in this run",
            (Answer::No, _) => "not allowed",
            (Answer::Late, _) => "nobody answered in time: not allowed",
        };
        Step { shown: format!("\r\natoll: {said}\r\n"), answer: Some(answer) }
    }

    /// What ends a question that needs no answer any more.
    pub(crate) fn taken_back() -> &'static str {
        "\r\natoll: not answered\r\n"
    }

    fn last_line(&self) -> String {
        let line = format!("atoll: {}? {} ", self.question.asks, self.question.choices.words());
        let line = plain(&line);
        // At the end of a line that is full, a terminal has not moved on yet.
        wrapped(&line, self.width).collect::<Vec<_>>().join("\r\n")
    }
}

impl Choices {
    fn words(self) -> &'static str {
        match self {
            Self::OnceOrRun => "[y]es once, [r] in this run, [n]o",
            Self::Once => "[y]es, [n]o",
        }
    }
}

fn meant(line: &str, choices: Choices) -> Option<Answer> {
    match (line.trim().to_ascii_lowercase().as_str(), choices) {
        ("y" | "yes" | "once", _) => Some(Answer::Once),
        ("r" | "run", Choices::OnceOrRun) => Some(Answer::Run),
        ("n" | "no", _) => Some(Answer::No),
        _ => None,
    }
}

/// Text of which nothing is obeyed by a terminal, and nothing looks like something else.
pub(crate) fn plain(text: &str) -> String {
    let one = |c: char| match c {
        ' '..='~' => c.to_string(),
        c => c.escape_unicode().to_string(),
    };
    text.chars().map(one).collect()
}

/// The pieces of plain text that fit into a line each.
fn wrapped(text: &str, width: usize) -> impl Iterator<Item = &str> {
    let count = text.len().div_ceil(width).max(1);
    (0..count).map(move |part| {
        let from = part * width;
        text.get(from..text.len().min(from + width)).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(choices: Choices, now: Instant) -> Question {
        Question {
            number: 1,
            about: vec!["who: a\u{1b}[2J\u{202e}b".to_owned()],
            asks: "allow a.test:443".to_owned(),
            choices,
            until: now + Duration::from_secs(60),
        }
    }

    fn settled(choices: Choices) -> (Dialog, Instant) {
        let now = Instant::now();
        let (mut dialog, _) = Dialog::new(question(choices, now), 80, false, now);
        let now = now + QUIET;
        assert!(dialog.look_at_clock(now).shown.starts_with("atoll: allow a.test:443? [y]es"));
        (dialog, now)
    }

    fn answer(keys: &[u8]) -> Option<Answer> {
        let (mut dialog, now) = settled(Choices::OnceOrRun);
        dialog.press(keys, now).answer
    }

    #[test]
    fn words_and_enter_are_answers() {
        assert_eq!(answer(b"y\r"), Some(Answer::Once));
        assert_eq!(answer(b" YES \n"), Some(Answer::Once));
        assert_eq!(answer(b"r\r"), Some(Answer::Run));
        assert_eq!(answer(b"n\r"), Some(Answer::No));
        assert_eq!(answer(b"x\x7fy\r"), Some(Answer::Once));
        assert_eq!(answer(b"no\x15y\r"), Some(Answer::Once));
        for keys in [&b"\x03"[..], b"\x04", b"y\x1c"] {
            assert_eq!(answer(keys), Some(Answer::No));
        }
        for keys in [&b"y"[..], b"\r", b"yy\r", b"always\r", b"x\ry\r", b"yyyyyyyyyyyyyyyyyyyy\r"] {
            assert_eq!(answer(keys), None, "{keys:?}");
        }
        let (mut dialog, now) = settled(Choices::Once);
        assert_eq!(dialog.press(b"r\r", now).answer, None);
    }

    #[test]
    fn what_a_terminal_reports_is_no_answer_and_nothing_behind_it() {
        for keys in [&b"\x1b]ly\r\x1b\\y\r"[..], b"\x1b[200~y\r\x1b[201~", b"\x9b0ny\r", b"y\x1b\r"]
        {
            let (mut dialog, now) = settled(Choices::OnceOrRun);
            assert_eq!(dialog.press(keys, now).answer, None, "{keys:?}");
            // More of the same, a little later.
            let now = now + QUIET / 2;
            assert_eq!(dialog.press(b"y\r", now).answer, None);
            assert_eq!(dialog.look_at_clock(now + QUIET / 2).shown, "");
            let now = now + QUIET;
            assert!(dialog.look_at_clock(now).shown.starts_with("atoll: allow"));
            assert_eq!(dialog.press(b"y\r", now).answer, Some(Answer::Once));
        }
    }

    #[test]
    fn keys_that_come_before_the_last_line_answer_nothing() {
        let now = Instant::now();
        let (mut dialog, _) = Dialog::new(question(Choices::OnceOrRun, now), 80, false, now);
        let mut at = now;
        for _ in 0..10 {
            at += QUIET / 2;
            assert_eq!(dialog.look_at_clock(at), Step::default());
            assert_eq!(dialog.press(b"y\ry", at), Step::default());
        }
        at += QUIET;
        assert!(!dialog.look_at_clock(at).shown.is_empty());
        assert_eq!(dialog.press(b"\r", at).answer, None);
    }

    #[test]
    fn time_ends_it() {
        let (mut dialog, now) = settled(Choices::OnceOrRun);
        assert_eq!(dialog.alarm(), dialog.question.until);
        let late = dialog.look_at_clock(now + Duration::from_secs(60));
        assert_eq!(late.answer, Some(Answer::Late));
    }

    #[test]
    fn nothing_in_a_question_is_obeyed_by_a_terminal() {
        let now = Instant::now();
        let (_, text) = Dialog::new(question(Choices::Once, now), 80, false, now);
        let text = text.strip_prefix(PLAIN).unwrap();
        assert_eq!(text, "who: a\\u{1b}[2J\\u{202e}b\r\n");
        let long = Question { asks: "x".repeat(200), ..question(Choices::Once, now) };
        let (dialog, text) = Dialog::new(long, 40, true, now);
        assert!(text.starts_with("\r\nwho"));
        assert!(dialog.last_line().split("\r\n").all(|line| line.len() <= 39));
    }

    #[test]
    fn what_is_too_long_for_a_screen_is_said_to_be_left_out_and_each_line_has_its_end() {
        let now = Instant::now();
        let long = |c: &str| format!("begin{}end", c.repeat(100_000));
        let about = vec![long("y"), "rule: short".to_owned(), long("\u{202e}")];
        let much = Question { about, ..question(Choices::Once, now) };
        let text = Dialog::new(much, 80, true, now).1;
        assert!(text.len() < 3 * ABOUT_CHARS_MAX, "{}", text.len());
        let text = text.replace("\r\n", "");
        assert_eq!(text.matches("begin").count(), 2);
        assert_eq!(text.matches("end").count(), 2);
        // What is counted is what would have been shown.
        let left = 100_008 - ABOUT_CHARS_MAX + " [... 100008 characters left out ...] ".len();
        assert!(text.contains(&format!(" [... {left} characters left out ...] ")), "{text}");
        assert!(text.contains("endrule: shortbegin\\u{202e}"), "{text}");
    }
}
