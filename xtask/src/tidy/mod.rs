//! The tidy check: rules about files that no compiler knows.

mod changelog;
mod size;
mod words;

use crate::workspace;
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// Check sizes, names and words of the committed files
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// A committed text file.
struct Source {
    /// Relative to the root.
    path: PathBuf,
    text: String,
}

impl Source {
    fn is_rust(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "rs")
    }

    /// A message that terminals and editors can follow to the line.
    fn problem(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path.display())
    }
}

pub(crate) fn run(_args: &Args) -> Result<()> {
    let mut problems = Vec::new();
    let files = workspace::files()?;
    for path in &files {
        let Some(source) = read(path)? else { continue };
        problems.extend(words::check(&source));
        if source.is_rust() {
            problems.extend(size::check(&source));
        }
        if source.path == Path::new("CHANGELOG.md") {
            problems.extend(changelog::check(&source));
        }
    }
    problems.extend(size::stale(&files));
    for problem in &problems {
        println!("{problem}");
    }
    if !problems.is_empty() {
        bail!("{} untidy place(s)", problems.len());
    }
    println!("{} files are tidy", files.len());
    Ok(())
}

/// Reads a file; binary files, links and the licences' fixed texts give nothing.
fn read(path: &Path) -> Result<Option<Source>> {
    let full = workspace::root().join(path);
    let kind =
        full.symlink_metadata().with_context(|| format!("cannot read {}", path.display()))?;
    if !kind.is_file() || path.to_string_lossy().starts_with("LICENSE-") {
        return Ok(None);
    }
    let bytes = fs::read(&full).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8(bytes).ok().map(|text| Source { path: path.to_owned(), text }))
}

#[cfg(test)]
fn source(path: &str, text: &str) -> Source {
    Source { path: path.into(), text: text.to_owned() }
}
