//! What goes to standard output.

use crate::error::CliError;
use serde::Serialize;
use std::io::{self, Write as _};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

/// Whether there is still somebody who reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    Reads,
    /// It went away, as `head` does, which is no failure.
    Gone,
}

/// Prints text.
pub(crate) fn say(text: &str) -> Result<Reader, CliError> {
    let mut stdout = io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(Reader::Reads),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(CliError::new("cannot write the answer").because(error)),
    }
}

/// One line of JSON.
pub(crate) fn line(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).expect("an answer has string keys only");
    text + "\n"
}

/// One line of JSON for each.
pub(crate) fn lines<T: Serialize>(values: &[T]) -> String {
    values.iter().map(line).collect()
}

/// JSON for people, which has no characters that could drive a terminal.
pub(crate) fn pretty(value: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(value).expect("an answer has string keys only");
    text + "\n"
}

/// Things that were asked for: a line of JSON for each, or a table with a heading.
pub(crate) fn listed<T: Serialize, const N: usize>(
    format: Format,
    things: &[T],
    heading: [&str; N],
    row: impl Fn(&T) -> [String; N],
) -> String {
    match format {
        Format::Json => lines(things),
        Format::Text => table(heading, &things.iter().map(row).collect::<Vec<_>>()),
    }
}

/// A number of bytes for people: in the largest unit of which there is one, to a tenth.
pub(crate) fn size(bytes: u64) -> String {
    for (unit, name) in [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
    {
        if bytes >= unit {
            let tenths = u128::from(bytes) * 10 / u128::from(unit);
            return format!("{}.{} {name}", tenths / 10, tenths % 10);
        }
    }
    format!("{bytes} B")
}

/// A table with a heading; columns are as wide as what is in them, and nothing that could
/// drive a terminal gets there.
pub(crate) fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    let rows: Vec<[String; N]> = std::iter::once(heading.map(str::to_owned))
        .chain(rows.iter().map(|row| row.clone().map(|cell| plain(&cell))))
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// Without characters that could drive a terminal.
fn plain(text: &str) -> String {
    atoll_store::escape::escape(std::path::Path::new(text))
}

/// The same for text of several lines, those behind the first indented: none of them can
/// be taken for one of ours.
pub(crate) fn neutral(text: &str) -> String {
    text.trim_end().split('\n').map(plain).collect::<Vec<_>>().join("\n  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_drives_no_terminal_and_forges_no_line() {
        let text = "fatal: \u{1b}]0;x\u{7}\nhint: run\r\u{9b}31m\n";
        assert_eq!(neutral(text), "fatal: \\x1b]0;x\\x07\n  hint: run\\x0d\\xc2\\x9b31m");
    }

    #[test]
    fn amounts_are_short() {
        let sizes = [0, 1023, 1024, 1536, (1 << 20) - 1, 1536 << 10, 5 << 30, u64::MAX].map(size);
        assert_eq!(
            sizes,
            [
                "0 B",
                "1023 B",
                "1.0 KiB",
                "1.5 KiB",
                "1023.9 KiB",
                "1.5 MiB",
                "5.0 GiB",
                "16777215.9 TiB"
            ]
        );
    }

    #[test]
    fn columns_are_as_wide_as_they_need_be() {
        let rows = [["a".to_owned(), "1".to_owned()], ["long\u{1b}[31m".to_owned(), String::new()]];
        assert_eq!(
            table(["NAME", "N"], &rows),
            "NAME          N\na             1\nlong\\x1b[31m\n"
        );
    }
}
