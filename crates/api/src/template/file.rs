//! A template as people write it: a TOML file.
//!
//! Every problem is told at once, each with its line; keys that are not known are refused, with the
//! nearest that is.

mod read;

use super::{BuildTemplate, FilesDigest, TemplateCopy, TemplateStep};
use crate::policy::{Lines, line_at, nearest};
use std::collections::BTreeMap;
use std::fmt;
use toml::de::DeTable;

/// What the file is called in a directory that is to be built.
pub const TEMPLATE_FILE: &str = "template.toml";
/// Longest file that is read, in bytes.
pub const TEMPLATE_FILE_BYTES_MAX: usize = 256 << 10;

/// A template of a file. The files that it copies are still to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateFile {
    request: BuildTemplate,
    /// Of the steps that copy, by their place: from where, and to where.
    copies: BTreeMap<usize, FileCopy>,
}

/// A step that copies, as a file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCopy {
    /// From where: a path below the directory of the file.
    pub from: String,
    /// Into which directory.
    pub to: String,
    /// In which line of the file.
    pub line: u32,
}

impl TemplateFile {
    /// The steps that copy, by their place among the steps.
    pub fn copies(&self) -> &BTreeMap<usize, FileCopy> {
        &self.copies
    }

    /// The request, with the files that each step copies.
    ///
    /// # Errors
    /// Gives the place of a step that no files are given for.
    pub fn request(&self, files: &BTreeMap<usize, FilesDigest>) -> Result<BuildTemplate, usize> {
        let mut request = self.request.clone();
        for (place, copy) in &self.copies {
            let files = *files.get(place).ok_or(*place)?;
            request.steps[*place] = TemplateStep::Copy(TemplateCopy { files, to: copy.to.clone() });
        }
        Ok(request)
    }
}

/// One problem of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct FileError {
    /// In which line, from 1.
    pub line: u32,
    /// What is wrong there.
    pub message: String,
}

/// All problems of a file, ordered by line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileErrors(pub Vec<FileError>);

impl std::error::Error for FileErrors {}

impl fmt::Display for FileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, error) in self.0.iter().enumerate() {
            let before = if number == 0 { "" } else { "\n" };
            write!(f, "{before}{error}")?;
        }
        Ok(())
    }
}

/// Reads a file.
///
/// # Errors
/// Every problem that was found; a file is taken whole or not at all.
pub fn parse(bytes: &[u8]) -> Result<TemplateFile, FileErrors> {
    let one = |line, message: String| FileErrors(vec![FileError { line, message }]);
    if bytes.len() > TEMPLATE_FILE_BYTES_MAX {
        let message =
            format!("the file has {} bytes, more than {TEMPLATE_FILE_BYTES_MAX}", bytes.len());
        return Err(one(1, message));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| one(line_at(bytes, error.valid_up_to()), "not valid UTF-8".to_owned()))?;
    let root = DeTable::parse(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        one(line_at(bytes, start), error.message().to_owned())
    })?;
    let mut reader = Reader { lines: Lines::new(bytes), errors: Vec::new() };
    let file = reader.root(root.get_ref());
    if let (Some(file), true) = (file, reader.errors.is_empty()) {
        return match file.request.validate() {
            Ok(()) => Ok(file),
            // What is wrong with the whole has no line of its own.
            Err(error) => Err(one(1, error.to_string())),
        };
    }
    reader.errors.sort_by_key(|error| error.line);
    Err(FileErrors(reader.errors))
}

struct Reader {
    lines: Lines,
    errors: Vec<FileError>,
}

impl Reader {
    fn fail(&mut self, line: u32, message: String) {
        self.errors.push(FileError { line, message });
    }

    /// Refuses the keys of a table that are not known.
    fn known(&mut self, what: &str, table: &DeTable<'_>, known: &[&str]) {
        for (name, _) in table {
            let text = name.get_ref().as_ref();
            if known.contains(&text) {
                continue;
            }
            let near = nearest(text, known.iter().copied());
            let near = near.map(|near| format!("; did you mean {near:?}?"));
            let there = near.unwrap_or_else(|| format!("; there are {}", known.join(", ")));
            let line = self.lines.of(name.span().start);
            self.fail(line, format!("unknown key {text:?} in {what}{there}"));
        }
    }
}

#[cfg(test)]
mod tests;
