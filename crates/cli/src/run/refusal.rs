//! What was refused, as it travels out of the sandbox and as it is told.

use super::hints;
use atoll_jail::judge::{Denial, Report};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// One kind of refusal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Refusal {
    /// Stable name of the rule.
    pub(crate) rule: String,
    /// The call: `open`, `rename`, `mount`, ...
    pub(crate) operation: String,
    /// The real path, links resolved; bytes that are not UTF-8 are replaced.
    pub(crate) path: Option<String>,
    /// What exactly, where the path does not say it.
    pub(crate) detail: Option<String>,
    /// The pattern that would lift it.
    pub(crate) suggestion: Option<String>,
    /// A process, in the sandbox's own numbers.
    pub(crate) pid: u32,
    /// Seen where it was decided, rather than guessed from an errno.
    pub(crate) exact: bool,
}

/// What was let through and should be looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Noticed {
    pub(crate) born_repositories: Vec<String>,
    pub(crate) tool_files: Vec<String>,
    pub(crate) reported_files: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
enum Record {
    Refused(Refusal),
    Noticed(Noticed),
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn bytes(record: &Record) -> Vec<u8> {
    // Plain data of strings and numbers cannot fail to be written.
    serde_json::to_vec(record).unwrap_or_default()
}

/// The record of a denial.
pub(super) fn denied(denial: &Denial) -> Vec<u8> {
    let path = Some(text(&denial.path)).filter(|path| !path.is_empty());
    bytes(&Record::Refused(Refusal {
        rule: denial.rule.to_owned(),
        operation: denial.operation.to_owned(),
        path,
        detail: denial.detail.clone(),
        suggestion: denial.suggestion.clone(),
        pid: denial.pid,
        exact: true,
    }))
}

/// Paths that one report lists at most.
const NOTICED_MAX: usize = 100;

/// The record of a report; nothing of one that says nothing.
pub(super) fn noticed(report: &Report) -> Option<Vec<u8>> {
    let lists = [&report.born_repositories, &report.tool_files_elsewhere, &report.told_files];
    if lists.iter().all(|list| list.is_empty()) {
        return None;
    }
    let list = |paths: &[std::path::PathBuf]| {
        paths.iter().take(NOTICED_MAX).map(|path| text(path)).collect()
    };
    Some(bytes(&Record::Noticed(Noticed {
        born_repositories: list(&report.born_repositories),
        tool_files: list(&report.tool_files_elsewhere),
        reported_files: list(&report.told_files),
    })))
}

/// All records of a run. What cannot be read was not ours and is left out.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// Each kind once, with how often.
    pub(crate) refused: Vec<(Refusal, u64)>,
    pub(crate) noticed: Noticed,
}

impl Refusals {
    pub(super) fn read(records: &[Vec<u8>]) -> Self {
        let mut counts: BTreeMap<Key, usize> = BTreeMap::new();
        let mut all = Self::default();
        for record in records {
            match serde_json::from_slice(record) {
                Ok(Record::Refused(refusal)) => {
                    let key = refusal.key();
                    match counts.get(&key) {
                        Some(at) => all.refused[*at].1 += 1,
                        None => {
                            counts.insert(key, all.refused.len());
                            all.refused.push((refusal, 1));
                        }
                    }
                }
                Ok(Record::Noticed(noticed)) => all.noticed = noticed,
                Err(_) => {}
            }
        }
        all
    }

    /// A line for each rule: its first refusal, how many more, what to ask for.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut rules: Vec<&str> = Vec::new();
        let mut lines = Vec::new();
        for (refusal, _) in &self.refused {
            if rules.contains(&refusal.rule.as_str()) {
                continue;
            }
            rules.push(&refusal.rule);
            let same = self.refused.iter().filter(|(other, _)| other.rule == refusal.rule);
            lines.push(refusal.line(same.count() - 1));
        }
        let Noticed { born_repositories, tool_files, reported_files } = &self.noticed;
        let listed = |paths: &[String]| {
            let list = paths.iter().map(|path| escaped(path)).collect::<Vec<_>>().join(", ");
            (!list.is_empty()).then_some(list)
        };
        lines.extend(
            listed(born_repositories)
                .map(|list| format!("atoll: new repositories: {list}; their hooks are inactive")),
        );
        lines.extend(listed(tool_files).map(|list| {
            format!("atoll: written where only a tool opened there would obey it: {list}")
        }));
        lines.extend(listed(reported_files).map(|list| {
            format!("atoll: changed in this run: {list}; agents, git or a server will obey it")
        }));
        lines
    }
}

/// What makes two refusals one: rule, operation, path and detail.
type Key = (String, String, Option<String>, Option<String>);

impl Refusal {
    fn key(&self) -> Key {
        let Self { rule, operation, path, detail, .. } = self.clone();
        (rule, operation, path, detail)
    }

    fn line(&self, more: usize) -> String {
        let what = match (&self.path, &self.detail) {
            (Some(path), Some(detail)) => format!("{} {path} ({detail})", self.operation),
            (Some(path), None) => format!("{} {path}", self.operation),
            (None, Some(detail)) => format!("{} {detail}", self.operation),
            (None, None) => self.operation.clone(),
        };
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let guess = if self.exact { "" } else { " (likely)" };
        let ask = self.ask();
        format!("atoll: refused {}{more}: rule {}{guess}; {ask}", escaped(&what), self.rule)
    }

    /// What to ask for.
    fn ask(&self) -> String {
        if let Some(pattern) = &self.suggestion {
            return format!("to allow it, the user runs with --allow-write '{}'", escaped(pattern));
        }
        match self.rule.as_str() {
            "kernel.ptrace" => "for debuggers the user runs with --allow ptrace".to_owned(),
            "kernel.namespaces" => "for programs with a sandbox of their own the user runs with \
                 --allow nested-userns"
                .to_owned(),
            "hidden" => "the user hides it; `atoll policy explain PATH` names the rule".to_owned(),
            "kernel.mounts" => "mounts need another kind of sandbox".to_owned(),
            "network.none" => {
                "there is no network; what is needed must be installed or in the project".to_owned()
            }
            "kernel.set-id" => {
                "programs that take their owner's rights are made outside".to_owned()
            }
            "review.rename" => {
                "it can be copied, or root runs the review, or it is live: --workspace live"
                    .to_owned()
            }
            rule => hints::advice(rule).unwrap_or("nothing lifts it").to_owned(),
        }
    }
}

/// Control characters would let a path write to the reader's terminal.
pub(crate) fn escaped(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            if c.is_control() { c.escape_default().collect::<String>() } else { c.to_string() }
                .chars()
                .collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(rule: &str, path: &str) -> Vec<u8> {
        bytes(&Record::Refused(Refusal {
            rule: rule.to_owned(),
            operation: "open".to_owned(),
            path: Some(path.to_owned()),
            detail: None,
            suggestion: Some(".vscode/".to_owned()),
            pid: 7,
            exact: true,
        }))
    }

    #[test]
    fn one_line_for_each_rule() {
        let records = [
            refusal("project-tool", "/w/.vscode/tasks.json"),
            refusal("project-tool", "/w/.vscode/tasks.json"),
            refusal("project-tool", "/w/.envrc"),
            refusal("git-hooks", "/w/.git/hooks/x\u{1b}[2J"),
            b"garbage".to_vec(),
        ];
        let refusals = Refusals::read(&records);
        assert_eq!(refusals.refused.iter().map(|(_, count)| *count).sum::<u64>(), 4);
        let lines = refusals.lines();
        assert_eq!(
            lines,
            [
                "atoll: refused open /w/.vscode/tasks.json and 1 more: rule project-tool; to \
                 allow it, the user runs with --allow-write '.vscode/'",
                "atoll: refused open /w/.git/hooks/x\\u{1b}[2J: rule git-hooks; to allow it, the \
                 user runs with --allow-write '.vscode/'",
            ]
        );
    }
}
