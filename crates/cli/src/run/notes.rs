//! What the command does not get and nobody asked about: variables, directories
//! of PATH, hidden paths. A person is told once for each project.

use super::refusal::escaped;
use crate::policy::ignore::Hidden;
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

/// What stays outside of one run.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Names of the caller's variables.
    pub(super) variables: Vec<OsString>,
    /// Entries of the caller's PATH.
    pub(super) path: Vec<PathBuf>,
    /// Paths of the project, directories with a slash.
    pub(super) hidden: Vec<String>,
}

/// Whom the notes are for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Audience {
    /// Somebody asked for all of it.
    Asked,
    /// Somebody at a terminal, who is told the first time.
    Person,
    /// A program, which has it in the JSON.
    Program,
}

impl Audience {
    pub(super) fn of(is_verbose: bool, is_json: bool) -> Self {
        match (is_verbose, is_json) {
            (true, _) => Self::Asked,
            (false, false) if std::io::stderr().is_terminal() => Self::Person,
            (false, _) => Self::Program,
        }
    }
}

impl Notes {
    /// The lines that this run shows. `told` is the file that remembers that the
    /// first run has told; it is made when there is something to remember.
    pub(super) fn lines(&self, audience: Audience, told: &Path) -> Vec<String> {
        match audience {
            Audience::Asked => self.list(),
            Audience::Program => Vec::new(),
            Audience::Person => {
                let Some(line) = self.summary() else { return Vec::new() };
                // Where it cannot be remembered it is better not said each time.
                let is_first = std::fs::OpenOptions::new().write(true).create_new(true).open(told);
                if is_first.is_ok() { vec![line] } else { Vec::new() }
            }
        }
    }

    fn summary(&self) -> Option<String> {
        let counts = [
            (self.variables.len(), "variable", "variables"),
            (self.path.len(), "directory of PATH", "directories of PATH"),
            (self.hidden.len(), "hidden path", "hidden paths"),
        ];
        let parts: Vec<String> = counts
            .iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, one, many)| format!("{count} {}", if *count == 1 { one } else { many }))
            .collect();
        let kept = "atoll: kept outside in this project";
        (!parts.is_empty())
            .then(|| format!("{kept}: {}; --verbose lists them (said once)", parts.join(", ")))
    }

    fn list(&self) -> Vec<String> {
        let names = |names: &mut dyn Iterator<Item = &OsStr>| {
            names.map(|name| escaped(&name.to_string_lossy())).collect::<Vec<_>>().join(", ")
        };
        let mut lines = Vec::new();
        if !self.variables.is_empty() {
            let list = names(&mut self.variables.iter().map(OsString::as_os_str));
            lines.push(format!("atoll: variables kept outside: {list}; --env NAME passes one"));
        }
        if !self.path.is_empty() {
            let list = names(&mut self.path.iter().map(|path| path.as_os_str()));
            lines.push(format!("atoll: PATH kept outside: {list}; --read DIR shows one"));
        }
        if !self.hidden.is_empty() {
            lines.push(format!("atoll: hidden: {}", listed(&self.hidden)));
        }
        lines
    }
}

/// The paths as they are told.
pub(super) fn hidden_paths(hidden: &[Hidden]) -> Vec<String> {
    let slash = |hidden: &Hidden| if hidden.is_dir { "/" } else { "" };
    hidden.iter().map(|hidden| format!("{}{}", hidden.path.display(), slash(hidden))).collect()
}

/// Paths that one line names at most.
const LISTED_MAX: usize = 10;

/// Some of them, and how many more there are.
pub(super) fn listed(paths: &[String]) -> String {
    let some: Vec<String> = paths.iter().take(LISTED_MAX).map(|path| escaped(path)).collect();
    match paths.len().saturating_sub(LISTED_MAX) {
        0 => some.join(", "),
        more => format!("{} and {more} more (`atoll policy show` lists them)", some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes() -> Notes {
        Notes {
            variables: vec!["GH_TOKEN".into(), "X\u{1b}[2J".into()],
            path: vec!["/home/ada/bin".into()],
            hidden: vec![".env".to_owned(), "keys/".to_owned()],
        }
    }

    #[test]
    fn a_person_is_told_once_and_a_program_never() {
        let directory = tempfile::tempdir().unwrap();
        let told = directory.path().join("p.told");
        assert!(notes().lines(Audience::Program, &told).is_empty());
        assert!(Notes::default().lines(Audience::Person, &told).is_empty());
        assert_eq!(
            notes().lines(Audience::Person, &told),
            ["atoll: kept outside in this project: 2 variables, 1 directory of PATH, 2 hidden \
              paths; --verbose lists them (said once)"]
        );
        assert!(notes().lines(Audience::Person, &told).is_empty());
        assert!(notes().lines(Audience::Person, &directory.path().join("no/p")).is_empty());
    }

    #[test]
    fn who_asks_gets_names_that_cannot_write_to_the_terminal() {
        let lines = notes().lines(Audience::Asked, Path::new("/nowhere"));
        assert_eq!(
            lines,
            [
                "atoll: variables kept outside: GH_TOKEN, X\\u{1b}[2J; --env NAME passes one",
                "atoll: PATH kept outside: /home/ada/bin; --read DIR shows one",
                "atoll: hidden: .env, keys/",
            ]
        );
    }

    #[test]
    fn long_lists_are_cut() {
        let paths: Vec<String> = (0..12).map(|number| format!("f{number}")).collect();
        assert!(listed(&paths).ends_with("f9 and 2 more (`atoll policy show` lists them)"));
    }
}
