//! Reads a document. Every problem is told at once, each with its line.

mod error;
mod item;
mod network;

pub use error::{ParseError, ParseErrorKind, ParseErrors};

use super::document::{Document, Place};
use super::keys::{KEYS, sections};
use super::value::nearest;
pub(crate) use item::kind_of;
use item::{env_pattern, exec_pattern, file_name, host_path, path_pattern, plain};
use toml::de::{DeTable, DeValue};

/// Longest document that is read, in bytes. A policy is a page or two; this keeps a
/// file that is something else from being parsed at all.
pub const MAX_DOCUMENT_BYTES: usize = 256 << 10;

/// Reads a policy document.
///
/// # Errors
/// Every problem found, ordered by line; a document is taken whole or not at all.
pub fn parse(bytes: &[u8]) -> Result<Document, ParseErrors> {
    let one = |line, kind| ParseErrors(vec![ParseError { line, kind }]);
    if bytes.len() > MAX_DOCUMENT_BYTES {
        return Err(one(1, ParseErrorKind::TooLong { bytes: bytes.len() }));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| one(line_at(bytes, error.valid_up_to()), ParseErrorKind::NotUtf8))?;
    let root = DeTable::parse(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        one(line_at(bytes, start), ParseErrorKind::Syntax { message: error.message().to_owned() })
    })?;
    let mut reader = Reader { lines: Lines::new(bytes), errors: Vec::new() };
    let mut document = Document::default();
    reader.root(root.get_ref(), &mut document);
    if reader.errors.is_empty() {
        document.env.set.sort_by(|a, b| a.0.cmp(&b.0));
        document.network.secrets.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(document)
    } else {
        reader.errors.sort_by_key(|error| error.line);
        Err(ParseErrors(reader.errors))
    }
}

pub(crate) fn line_at(bytes: &[u8], offset: usize) -> u32 {
    let newlines = bytes[..offset.min(bytes.len())].iter().filter(|byte| **byte == b'\n').count();
    u32::try_from(newlines + 1).unwrap_or(u32::MAX)
}

/// Starts of lines, so that a line is found without counting from the top.
pub(crate) struct Lines(Vec<usize>);

impl Lines {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let newlines = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        Self(newlines.map(|(at, _)| at + 1).collect())
    }

    pub(crate) fn of(&self, offset: usize) -> u32 {
        let line = self.0.partition_point(|start| *start <= offset) + 1;
        u32::try_from(line).unwrap_or(u32::MAX)
    }
}

/// A value with its full key, on its way into the document.
struct Item<'t> {
    key: String,
    line: u32,
    value: &'t DeValue<'t>,
}

impl Item<'_> {
    fn place(&self) -> Place {
        Place::Line(self.line)
    }
}

struct Reader {
    lines: Lines,
    errors: Vec<ParseError>,
}

impl Reader {
    fn root(&mut self, root: &DeTable<'_>, document: &mut Document) {
        for (name, value) in root {
            let line = self.lines.of(name.span().start);
            let section = name.get_ref().as_ref();
            let DeValue::Table(table) = value.get_ref() else {
                let kind = self.not_a_table(section, value.get_ref());
                self.errors.push(ParseError { line, kind });
                continue;
            };
            if sections().any(|known| known == section) {
                self.section(section, table, document);
            } else {
                let did_you_mean = nearest(section, sections()).map(|near| format!("[{near}]"));
                let kind =
                    ParseErrorKind::UnknownSection { name: section.to_owned(), did_you_mean };
                self.errors.push(ParseError { line, kind });
            }
        }
    }

    fn not_a_table(&self, name: &str, value: &DeValue<'_>) -> ParseErrorKind {
        if sections().any(|known| known == name) {
            let key = format!("[{name}]");
            return ParseErrorKind::WrongType { key, expected: "a table", found: kind_of(value) };
        }
        let section = KEYS.iter().find(|key| key.name == name).map(|key| key.section.to_owned());
        ParseErrorKind::Loose { name: name.to_owned(), section }
    }

    fn section(&mut self, section: &str, table: &DeTable<'_>, document: &mut Document) {
        for (name, value) in table {
            let line = self.lines.of(name.span().start);
            let name = name.get_ref().as_ref();
            if !KEYS.iter().any(|key| key.section == section && key.name == name) {
                let kind = unknown_key(section, name);
                self.errors.push(ParseError { line, kind });
                continue;
            }
            let item = Item { key: format!("{section}.{name}"), line, value: value.get_ref() };
            self.item(&item, document);
        }
    }

    fn item(&mut self, item: &Item<'_>, document: &mut Document) {
        match item.key.as_str() {
            "workspace.mode" => document.workspace.mode = self.word(item),
            "workspace.strict_ignore" => document.workspace.strict_ignore = self.boolean(item),
            "workspace.apply" => document.workspace.apply = self.word(item),
            "files.read" => document.files.read = self.list(item, "a list of paths", host_path),
            "files.write" => document.files.write = self.list(item, "a list of paths", host_path),
            "files.hide" => document.files.hide = self.list(item, "a list of patterns", plain),
            "files.ignore_files" => {
                document.files.ignore_files = self.list(item, "a list of names", file_name)
            }
            "protect.allow" => {
                document.protect.allow = self.list(item, "a list of patterns", path_pattern)
            }
            "protect.deny" => {
                document.protect.deny = self.list(item, "a list of patterns", path_pattern)
            }
            "exec.ask" => document.exec.ask = self.list(item, "a list of patterns", exec_pattern),
            "env.pass" => document.env.pass = self.list(item, "a list of names", env_pattern),
            "env.set" => self.env_set(item, document),
            "limits.memory" => document.limits.memory = self.size(item),
            "limits.disk" => document.limits.disk = self.size(item),
            "limits.pids" => document.limits.pids = self.count(item),
            "limits.cpus" => document.limits.cpus = self.cpus(item),
            "limits.open_files" => document.limits.open_files = self.count(item),
            "limits.time" => document.limits.time = self.time(item),
            "tier.isolation" => document.tier.isolation = self.word(item),
            "kernel.ptrace" => document.kernel.ptrace = self.boolean(item),
            "kernel.nested_userns" => document.kernel.nested_userns = self.boolean(item),
            "root.image" => document.root.image = self.image(item),
            key => match key.strip_prefix("network.") {
                Some(name) => self.network(name, item, &mut document.network),
                None => unreachable!("{key} is in the table of keys but not read"),
            },
        }
    }
}

fn unknown_key(section: &str, name: &str) -> ParseErrorKind {
    let here = KEYS.iter().filter(|key| key.section == section).map(|key| key.name);
    let elsewhere = || {
        let key = KEYS.iter().find(|key| key.name == name)?;
        Some(format!("{}.{}", key.section, key.name))
    };
    let did_you_mean = nearest(name, here).map(str::to_owned).or_else(elsewhere);
    ParseErrorKind::UnknownKey { section: section.to_owned(), name: name.to_owned(), did_you_mean }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::value::{Bytes, Cpus, Limit};
    use crate::policy::{Located, WorkspaceMode};
    use proptest::prelude::*;

    fn errors(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn every_value_knows_its_line() {
        let text = "\n[workspace]\nmode = 'review'\n[files]\nread = [\n  '/a',\n  '~/b',\n]\n[env]\nset = {B='2', A='1'}\n";
        let document = parse(text.as_bytes()).unwrap();
        assert_eq!(
            document.workspace.mode,
            Some(Located::new(WorkspaceMode::Review, Place::Line(3)))
        );
        let read = document.files.read.unwrap();
        assert_eq!(read.place, Place::Line(5));
        assert_eq!(
            read.items,
            [Located::new("/a".into(), Place::Line(6)), Located::new("~/b".into(), Place::Line(7))]
        );
        let names: Vec<_> =
            document.env.set.iter().map(|(name, value)| (name.as_str(), value.place)).collect();
        assert_eq!(names, [("A", Place::Line(10)), ("B", Place::Line(10))]);
    }

    #[test]
    fn limits_take_numbers_units_and_none() {
        let text = "[limits]\nmemory = 1024\ndisk = '1GiB'\npids = 'none'\ncpus = 2\nopen_files = 0x100\ntime = '1m'\n";
        let limits = parse(text.as_bytes()).unwrap().limits;
        assert_eq!(limits.memory.unwrap().value, Limit::AtMost(Bytes(1024)));
        assert_eq!(limits.disk.unwrap().value, Limit::AtMost(Bytes::gib(1)));
        assert_eq!(limits.pids.unwrap().value, Limit::Unlimited);
        assert_eq!(limits.cpus.unwrap().value, Limit::AtMost(Cpus { milli: 2000 }));
        assert_eq!(limits.open_files.unwrap().value, Limit::AtMost(256));
        assert_eq!(limits.time.unwrap().value.most().unwrap().as_secs(), 60);
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let text = "memory = 1\n[limit]\n[limits]\nmemroy = 1\nmode = 1\npids = 'many'\ncpus = 0\ntime = 90\n\
                    [files]\nread = ['a', '/a/../b', 3]\nhide = '*'\n[env]\npass = ['*']\nset = {A = 1}\n\
                    [tier]\nisolation = 'microwm'\n[protect]\nallow = ['!x']\n";
        insta::assert_snapshot!(errors(text), @r#"
        line 1: "memory" stands outside a table; write it under [limits]
        line 2: unknown table [limit]; did you mean "[limits]"?
        line 4: unknown key "memroy" in [limits]; did you mean "memory"?
        line 5: unknown key "mode" in [limits]; did you mean "workspace.mode"?
        line 6: limits.pids must be a whole number or "none", not a string
        line 7: limits.cpus: 0 is not a number of processors; write one from 0.01 to 10000, as in 1.5
        line 8: limits.time must be a time with its unit, as in "90s", or "none", not a whole number
        line 10: files.read: "a" is not absolute; write it from / or from ~/
        line 10: files.read: "/a/../b" contains ".."; write the path that is meant
        line 10: files.read must be a list of strings, not a whole number
        line 11: files.hide must be a list of patterns, not a string
        line 13: env.pass: "*" would pass every variable, secrets included; name them, as in "MY_APP_*"
        line 14: env.set.A must be a string, not a whole number
        line 16: tier.isolation: "microwm" is not one of "wasm", "container", "gvisor", "microvm", "auto"; did you mean "microvm"?
        line 18: protect.allow: "!x" starts with "!"; use protect.allow and protect.deny instead
        "#);
    }

    #[test]
    fn bytes_that_are_not_toml() {
        assert_eq!(errors("a = 1\n[limits\n"), "line 2: unclosed table, expected `]`");
        let not_text = parse(b"[limits]\nmemory = \"\xff\"\n").unwrap_err().to_string();
        assert_eq!(not_text, "line 2: not valid UTF-8");
        let long = vec![b'#'; MAX_DOCUMENT_BYTES + 1];
        assert!(matches!(parse(&long).unwrap_err().0[0].kind, ParseErrorKind::TooLong { .. }));
        assert!(parse(&long[1..]).is_ok(), "control: the longest that is read");
    }

    #[test]
    fn a_mark_of_byte_order_and_carriage_returns_are_fine() {
        let document = parse(b"\xef\xbb\xbf[limits]\r\npids = 7\r\n").unwrap();
        assert_eq!(document.limits.pids.unwrap().place, Place::Line(2));
    }

    #[test]
    fn every_key_is_read() {
        for key in KEYS {
            let text = format!("[{}]\n{} = 1979-05-27\n", key.section, key.name);
            let message = errors(&text);
            assert!(
                message.starts_with(&format!("line 2: {}.{} must be ", key.section, key.name)),
                "{message}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_answer(bytes: Vec<u8>) {
            parse(&bytes).ok();
        }

        #[test]
        fn any_toml_like_text_gives_an_answer(
            text in r#"(\[(limits|files|env|protect)\]\n|(memory|read|pass|allow|set) = ([0-9]{1,20}|"[a-z~/*!.]{0,5}"|\["[a-z/*]{0,4}"\]|\{a="b"\})\n){0,8}"#
        ) {
            parse(text.as_bytes()).ok();
        }
    }
}
