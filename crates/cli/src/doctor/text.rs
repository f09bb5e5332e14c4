//! The diagnosis for people.

use super::Diagnosis;
use super::tiers::Verdict;
use atoll_jail::features::{Fix, State};

/// Whether the words for a state are coloured. Colour never says more than the
/// word does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Color {
    Ansi,
    Plain,
}

const GREEN: &str = "32";
const YELLOW: &str = "33";
const RED: &str = "31";
const DIM: &str = "2";

impl Color {
    /// Pads first: escapes would count as width.
    fn paint(self, word: &str, width: usize, code: &str) -> String {
        match self {
            Self::Plain => format!("{word:width$}"),
            Self::Ansi => format!("\x1b[{code}m{word:width$}\x1b[0m"),
        }
    }
}

/// Renders the tiers, the features and what follows from the surroundings.
pub(crate) fn text(diagnosis: &Diagnosis, color: Color) -> String {
    let mut text = String::new();
    tiers(diagnosis, color, &mut text);
    features(diagnosis, color, &mut text);
    if !diagnosis.notes.is_empty() {
        text += "\nHere\n";
    }
    for note in &diagnosis.notes {
        text += &format!("  {note}\n");
    }
    text
}

fn tiers(diagnosis: &Diagnosis, color: Color, text: &mut String) {
    *text += "Tiers\n";
    for tier in &diagnosis.tiers {
        let (word, code) = match tier.verdict {
            Verdict::Yes => ("works", GREEN),
            Verdict::Limited => ("works with limits", YELLOW),
            Verdict::No => ("does not work", RED),
        };
        push_line(text, &format!("  {:10} {}", tier.name, color.paint(word, 0, code)));
        for reason in &tier.reasons {
            push_line(text, &format!("{:13}{reason}", ""));
        }
        push_fix(text, 13, tier.command.as_deref());
    }
}

fn features(diagnosis: &Diagnosis, color: Color, text: &mut String) {
    *text += "\nFeatures\n";
    let mut told: Vec<(&Fix, &str)> = Vec::new();
    for feature in &diagnosis.features {
        let (word, code) = match feature.state {
            State::Yes => ("yes", GREEN),
            State::Limited => ("limited", YELLOW),
            State::No => ("no", RED),
            State::Unknown => ("-", DIM),
        };
        let state = color.paint(word, 7, code);
        push_line(text, &format!("  {:16} {state}  {}", feature.name, feature.detail));
        let Some(fix) = &feature.fix else { continue };
        // One cause often takes many features with it.
        if let Some((_, first)) = told.iter().find(|(other, _)| *other == fix) {
            push_line(text, &format!("{:28}as {first}", ""));
            continue;
        }
        told.push((fix, feature.name));
        push_line(text, &format!("{:28}{}", "", fix.cause));
        push_fix(text, 28, fix.command.as_deref());
    }
}

fn push_fix(text: &mut String, indent: usize, command: Option<&str>) {
    if let Some(command) = command {
        push_line(text, &format!("{:indent$}fix: {command}", ""));
    }
}

fn push_line(text: &mut String, line: &str) {
    *text += line.trim_end();
    text.push('\n');
}
