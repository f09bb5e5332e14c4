//! Changes as a unified diff, in the form that `git apply` and `patch` read.

use super::letter;
use atoll_store::changes::Change;
use atoll_store::escape::escape;
use atoll_store::node::{FileKind, Node};
use atoll_store::view::View;
use similar::TextDiff;
use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

/// Files longer than this are only said to differ.
const LONGEST_TEXT: u64 = 2 << 20;
/// Two files that have little in common are not aligned for longer than this.
const PATIENCE: Duration = Duration::from_millis(500);

/// Where the diff goes. What goes to a terminal must not drive it.
pub(crate) struct Sink<W> {
    out: W,
    is_terminal: bool,
}

impl Sink<io::BufWriter<io::StdoutLock<'static>>> {
    pub(crate) fn stdout() -> Self {
        let stdout = io::stdout();
        let is_terminal = stdout.is_terminal();
        Self { out: io::BufWriter::new(stdout.lock()), is_terminal }
    }
}

impl<W: Write> Sink<W> {
    pub(crate) fn line(&mut self, line: &str) -> io::Result<()> {
        self.out.write_all(line.as_bytes())
    }

    /// Writes text of a file. On a terminal every control character but tab and
    /// the end of the line is escaped.
    fn text(&mut self, text: &str) -> io::Result<()> {
        if !self.is_terminal {
            return self.out.write_all(text.as_bytes());
        }
        let end = if text.ends_with('\n') { "\n" } else { "" };
        let body = text.strip_suffix('\n').unwrap_or(text);
        for (index, part) in body.split('\t').enumerate() {
            if index > 0 {
                self.out.write_all(b"\t")?;
            }
            // A backslash stands for itself here: this is for reading only.
            for (index, part) in part.split('\\').enumerate() {
                if index > 0 {
                    self.out.write_all(b"\\")?;
                }
                self.out.write_all(escape(Path::new(part)).as_bytes())?;
            }
        }
        self.out.write_all(end.as_bytes())
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// One side of a change.
enum Side {
    /// Nothing is there, or a directory, which a diff does not show.
    None,
    Text(String),
    Binary,
    Unreadable,
}

impl Side {
    fn shown(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::None => Some(""),
            Self::Binary | Self::Unreadable => None,
        }
    }
}

fn side(node: Option<&Node>, file: impl FnOnce() -> io::Result<Option<File>>) -> Side {
    let Some(node) = node else { return Side::None };
    match node.kind {
        FileKind::Symlink => match &node.target {
            Some(target) => text(target.as_os_str().as_bytes().to_vec()),
            None => Side::Unreadable,
        },
        FileKind::File if node.size > LONGEST_TEXT => Side::Binary,
        FileKind::File => {
            let Ok(Some(file)) = file() else { return Side::Unreadable };
            let mut content = Vec::new();
            match file.take(LONGEST_TEXT + 1).read_to_end(&mut content) {
                Ok(_) => text(content),
                Err(_) => Side::Unreadable,
            }
        }
        _ => Side::None,
    }
}

fn text(content: Vec<u8>) -> Side {
    match String::from_utf8(content) {
        Ok(text) if !text.contains('\0') => Side::Text(text),
        _ => Side::Binary,
    }
}

fn sides(view: &View, change: &Change) -> (Side, Side) {
    let before = side(change.before.as_ref(), || change.open_before(view));
    let after = side(change.after.as_ref(), || change.open_after(view));
    (before, after)
}

/// Writes one change: what it is, why it needs attention, and the text.
pub(crate) fn write_patch<W: Write>(
    sink: &mut Sink<W>,
    view: &View,
    change: &Change,
    notes: &[String],
) -> io::Result<()> {
    let name = escape(&change.path);
    let shown = |node: &&Node| node.kind != FileKind::Dir;
    let (before, after) =
        (change.before.as_ref().filter(shown), change.after.as_ref().filter(shown));
    if before.is_none() && after.is_none() {
        // A patch knows no directories; a line that is no part of it does.
        sink.line(&format!("{} directory {name}{}\n", letter(change.kind), dir_mode(change)))?;
    } else {
        sink.line(&format!("diff --git a/{name} b/{name}\n"))?;
    }
    for note in notes {
        sink.line(&format!("note: {note}\n"))?;
    }
    sink.line(&modes(before, after))?;
    if let Some(from) = &change.renamed_from {
        sink.line(&format!("note: moved from {}\n", escape(from)))?;
    }
    let old_name = if before.is_some() { format!("a/{name}") } else { "/dev/null".into() };
    let new_name = if after.is_some() { format!("b/{name}") } else { "/dev/null".into() };
    let (before, after) = sides(view, change);
    match (before.shown(), after.shown()) {
        (Some(old), Some(new)) if old != new => {
            sink.line(&format!("--- {old_name}\n+++ {new_name}\n"))?;
            hunks(sink, old, new)
        }
        (Some(_), Some(_)) => Ok(()),
        _ if matches!(before, Side::Unreadable) || matches!(after, Side::Unreadable) => {
            sink.line("note: cannot be read\n")
        }
        _ => sink.line(&format!("Binary files a/{name} and b/{name} differ\n")),
    }
}

fn hunks<W: Write>(sink: &mut Sink<W>, old: &str, new: &str) -> io::Result<()> {
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(old, new);
    for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
        sink.line(&format!("{}\n", hunk.header()))?;
        for line in hunk.iter_changes() {
            sink.line(&line.tag().to_string())?;
            sink.text(line.value())?;
            if line.missing_newline() {
                sink.line("\n\\ No newline at end of file\n")?;
            }
        }
    }
    Ok(())
}

/// The header lines about what kind of file it is and was.
fn modes(before: Option<&Node>, after: Option<&Node>) -> String {
    match (before, after) {
        (None, Some(after)) => format!("new file mode {}\n", mode(after)),
        (Some(before), None) => format!("deleted file mode {}\n", mode(before)),
        (Some(before), Some(after)) if mode(before) != mode(after) => {
            format!("old mode {}\nnew mode {}\n", mode(before), mode(after))
        }
        _ => String::new(),
    }
}

fn dir_mode(change: &Change) -> String {
    match (&change.before, &change.after) {
        (Some(before), Some(after)) if before.mode != after.mode => {
            format!(" mode {:04o} to {:04o}", before.mode, after.mode)
        }
        (None, Some(after)) => format!(" mode {:04o}", after.mode),
        _ => String::new(),
    }
}

/// Type and permission bits in octal, as git writes them but exact.
fn mode(node: &Node) -> String {
    let kind = match node.kind {
        FileKind::File => 0o100_000,
        FileKind::Dir => 0o040_000,
        FileKind::Symlink => return "120000".into(),
        FileKind::Fifo => 0o010_000,
        FileKind::Socket => 0o140_000,
        FileKind::CharDevice => 0o020_000,
        FileKind::BlockDevice => 0o060_000,
        FileKind::Unknown => 0,
    };
    format!("{:06o}", kind | node.mode)
}

/// Lines added and removed, if the change is one of text.
pub(crate) fn stat(view: &View, change: &Change) -> Option<(usize, usize)> {
    let (before, after) = sides(view, change);
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(before.shown()?, after.shown()?);
    let mut counts = (0, 0);
    for line in diff.iter_all_changes() {
        match line.tag() {
            similar::ChangeTag::Insert => counts.0 += 1,
            similar::ChangeTag::Delete => counts.1 += 1,
            similar::ChangeTag::Equal => {}
        }
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str, is_terminal: bool) -> String {
        let mut sink = Sink { out: Vec::new(), is_terminal };
        sink.text(text).unwrap();
        String::from_utf8(sink.out).unwrap()
    }

    #[test]
    fn a_terminal_gets_no_control_characters() {
        let text = "a\tb\\c\r\u{1b}]0;x\u{7}\u{9b}\n";
        assert_eq!(written(text, true), "a\tb\\c\\x0d\\x1b]0;x\\x07\\xc2\\x9b\n");
        assert_eq!(written(text, false), text);
        assert_eq!(written("\n", true), "\n");
    }

    #[test]
    fn hunks_are_those_of_a_unified_diff() {
        let mut sink = Sink { out: Vec::new(), is_terminal: false };
        hunks(&mut sink, "a\nb\nc\n", "a\nB\nc").unwrap();
        let text = String::from_utf8(sink.out).unwrap();
        assert_eq!(text, "@@ -1,3 +1,3 @@\n a\n-b\n-c\n+B\n+c\n\\ No newline at end of file\n");
    }
}
