//! Reads one value, by the kind that its key wants.

use super::error::ParseErrorKind;
use super::{Item, ParseError, Reader};
use crate::exec::ExecPattern;
use crate::policy::document::{Document, List, Located};
use crate::policy::pattern::{EnvPattern, PathPattern};
use crate::policy::value::{Bytes, Cpus, Image, Limit, ValueError, parse_duration};
use std::path::PathBuf;
use std::str::FromStr;
use toml::Spanned;
use toml::de::DeValue;

impl Reader {
    pub(super) fn fail(&mut self, line: u32, kind: ParseErrorKind) {
        self.errors.push(ParseError { line, kind });
    }

    pub(super) fn wrong_type(&mut self, item: &Item<'_>, expected: &'static str) {
        let kind = ParseErrorKind::WrongType {
            key: item.key.clone(),
            expected,
            found: kind_of(item.value),
        };
        self.fail(item.line, kind);
    }

    pub(super) fn located<T>(
        &mut self,
        item: &Item<'_>,
        value: Result<T, ValueError>,
    ) -> Option<Located<T>> {
        match value {
            Ok(value) => Some(Located::new(value, item.place())),
            Err(problem) => {
                self.fail(item.line, ParseErrorKind::Value { key: item.key.clone(), problem });
                None
            }
        }
    }

    pub(super) fn string<'t>(
        &mut self,
        item: &Item<'t>,
        expected: &'static str,
    ) -> Option<&'t str> {
        match item.value {
            DeValue::String(text) => Some(text.as_ref()),
            _ => {
                self.wrong_type(item, expected);
                None
            }
        }
    }

    pub(super) fn boolean(&mut self, item: &Item<'_>) -> Option<Located<bool>> {
        match item.value {
            DeValue::Boolean(value) => Some(Located::new(*value, item.place())),
            _ => {
                self.wrong_type(item, "true or false");
                None
            }
        }
    }

    pub(super) fn word<T: FromStr<Err = ValueError>>(
        &mut self,
        item: &Item<'_>,
    ) -> Option<Located<T>> {
        let text = self.string(item, "a string")?;
        self.located(item, text.parse())
    }

    pub(super) fn size(&mut self, item: &Item<'_>) -> Option<Located<Limit<Bytes>>> {
        let value = match item.value {
            DeValue::String(text) => text.parse(),
            DeValue::Integer(_) => {
                integer(item.value, 0, u64::MAX).map(|bytes| Limit::AtMost(Bytes(bytes)))
            }
            _ => {
                self.wrong_type(item, "a size, as in \"512MiB\"");
                return None;
            }
        };
        self.located(item, value)
    }

    pub(super) fn count(&mut self, item: &Item<'_>) -> Option<Located<Limit<u32>>> {
        let value = match item.value {
            DeValue::String(text) if text == "none" => Ok(Limit::Unlimited),
            DeValue::Integer(_) => integer(item.value, 0, u64::from(u32::MAX))
                .map(|count| Limit::AtMost(u32::try_from(count).unwrap_or(u32::MAX))),
            _ => {
                self.wrong_type(item, "a whole number or \"none\"");
                return None;
            }
        };
        self.located(item, value)
    }

    pub(super) fn wide_count(&mut self, item: &Item<'_>) -> Option<Located<Limit<u64>>> {
        let value = match item.value {
            DeValue::String(text) if text == "none" => Ok(Limit::Unlimited),
            DeValue::Integer(_) => integer(item.value, 0, u64::MAX).map(Limit::AtMost),
            _ => {
                self.wrong_type(item, "a whole number or \"none\"");
                return None;
            }
        };
        self.located(item, value)
    }

    pub(super) fn cpus(&mut self, item: &Item<'_>) -> Option<Located<Limit<Cpus>>> {
        let value = match item.value {
            DeValue::String(text) if text == "none" => Ok(Limit::Unlimited),
            DeValue::Integer(number) => number.to_string().parse::<Cpus>().map(Limit::AtMost),
            DeValue::Float(number) => number.as_str().parse::<Cpus>().map(Limit::AtMost),
            _ => {
                self.wrong_type(item, "a number, as in 1.5, or \"none\"");
                return None;
            }
        };
        self.located(item, value)
    }

    pub(super) fn time(&mut self, item: &Item<'_>) -> Option<Located<Limit<std::time::Duration>>> {
        let text = self.string(item, "a time with its unit, as in \"90s\", or \"none\"")?;
        let value = if text == "none" {
            Ok(Limit::Unlimited)
        } else {
            parse_duration(text).map(Limit::AtMost)
        };
        self.located(item, value)
    }

    pub(super) fn image(&mut self, item: &Item<'_>) -> Option<Located<Image>> {
        let text = self.string(item, "\"host\" or a path")?;
        let value = if text == "host" { Ok(Image::Host) } else { absolute(text).map(Image::Path) };
        self.located(item, value)
    }

    pub(super) fn list<T>(
        &mut self,
        item: &Item<'_>,
        expected: &'static str,
        read: fn(&str, &str) -> Result<T, ParseErrorKind>,
    ) -> Option<List<T>> {
        let DeValue::Array(array) = item.value else {
            self.wrong_type(item, expected);
            return None;
        };
        let mut items = Vec::new();
        for element in array {
            let line = self.lines.of(element.span().start);
            let element = Item { key: item.key.clone(), line, value: element.get_ref() };
            let Some(text) = self.string(&element, "a list of strings") else { continue };
            match read(&element.key, text) {
                Ok(value) => items.push(Located::new(value, element.place())),
                Err(kind) => self.fail(line, kind),
            }
        }
        Some(List { place: item.place(), items })
    }

    pub(super) fn env_set(&mut self, item: &Item<'_>, document: &mut Document) {
        let DeValue::Table(table) = item.value else {
            self.wrong_type(item, "a table of strings");
            return;
        };
        for (name, value) in table {
            let entry = self.env_entry(name, value);
            document.env.set.extend(entry);
        }
    }

    fn env_entry(
        &mut self,
        name: &Spanned<toml::de::DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Option<(String, Located<std::ffi::OsString>)> {
        let line = self.lines.of(name.span().start);
        let name = name.get_ref().as_ref();
        let item = Item { key: format!("env.set.{name}"), line, value: value.get_ref() };
        let text = self.string(&item, "a string")?;
        let checked = env_name(name).and_then(|_| match text.contains('\0') {
            true => Err(ValueError::Nul),
            false => Ok(text.into()),
        });
        self.located(&item, checked).map(|value| (name.to_owned(), value))
    }
}

pub(super) fn env_name(text: &str) -> Result<String, ValueError> {
    if text.is_empty() || text.contains(['=', '\0']) {
        return Err(ValueError::EnvName { text: text.to_owned() });
    }
    Ok(text.to_owned())
}

pub(crate) fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn integer(value: &DeValue<'_>, least: u64, most: u64) -> Result<u64, ValueError> {
    let DeValue::Integer(number) = value else { unreachable!("callers look at the kind first") };
    let out_of_range = || ValueError::Range { text: number.to_string(), least, most };
    let parsed =
        u64::from_str_radix(number.as_str(), number.radix()).map_err(|_| out_of_range())?;
    if (least..=most).contains(&parsed) { Ok(parsed) } else { Err(out_of_range()) }
}

pub(super) fn plain(key: &str, text: &str) -> Result<String, ParseErrorKind> {
    if text.contains('\0') {
        return Err(ParseErrorKind::Value { key: key.to_owned(), problem: ValueError::Nul });
    }
    Ok(text.to_owned())
}

pub(super) fn file_name(key: &str, text: &str) -> Result<String, ParseErrorKind> {
    if text.is_empty() || text == "." || text == ".." || text.contains(['/', '\0']) {
        let problem = ValueError::FileName { text: text.to_owned() };
        return Err(ParseErrorKind::Value { key: key.to_owned(), problem });
    }
    Ok(text.to_owned())
}

pub(super) fn host_path(key: &str, text: &str) -> Result<PathBuf, ParseErrorKind> {
    absolute(text).map_err(|problem| ParseErrorKind::Value { key: key.to_owned(), problem })
}

/// A path that means the same wherever one stands: `/…`, `~` or `~/…`, without `..`.
fn absolute(text: &str) -> Result<PathBuf, ValueError> {
    if text.contains('\0') {
        return Err(ValueError::Nul);
    }
    if !(text.starts_with('/') || text == "~" || text.starts_with("~/")) {
        return Err(ValueError::RelativePath { text: text.to_owned() });
    }
    if text.split('/').any(|part| part == "..") {
        return Err(ValueError::ClimbingPath { text: text.to_owned() });
    }
    Ok(PathBuf::from(text))
}

pub(super) fn path_pattern(key: &str, text: &str) -> Result<PathPattern, ParseErrorKind> {
    PathPattern::parse(text)
        .map_err(|problem| ParseErrorKind::Pattern { key: key.to_owned(), problem })
}

pub(super) fn exec_pattern(key: &str, text: &str) -> Result<ExecPattern, ParseErrorKind> {
    text.parse().map_err(|problem| ParseErrorKind::Command { key: key.to_owned(), problem })
}

pub(super) fn env_pattern(key: &str, text: &str) -> Result<EnvPattern, ParseErrorKind> {
    EnvPattern::parse(text)
        .map_err(|problem| ParseErrorKind::Pattern { key: key.to_owned(), problem })
}
