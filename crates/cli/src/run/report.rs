//! How a run went: for people as lines, for programs as one JSON object.

use super::control::Told;
use super::foreign::Owned;
use super::hints;
use super::notes::{self, Notes};
use super::refusal::{Refusals, escaped};
use super::review::Reviewed;
use super::unmade::explained;
use crate::denial;
use crate::error::{CliError, EXIT_OURS};
use crate::supervise::{End, Lost, Outcome};
use atoll_egress::control::{Denial, Protocol};
use atoll_guest::message::FailureKind;
use atoll_jail::cgroup::Unenforced;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// By which the filter ends a process.
const SIGSYS: u8 = 31;

/// A limit that the policy can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    Memory,
    Pids,
    Disk,
    Time,
}

/// A limit that was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct LimitHit {
    pub(crate) limit: Limit,
    /// How often, as far as the kernel counts.
    pub(crate) count: u64,
}

/// Microseconds from the start of atoll.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Timeline {
    planned: u64,
    cloned: u64,
    view_ready: u64,
    confined: u64,
    running: u64,
    ended: u64,
    done: u64,
    /// How long Landlock, capabilities and the filter took together; not a
    /// moment but a length.
    seccomp: u64,
}

/// A run that is over.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) outcome: Outcome,
    pub(crate) timeline: Timeline,
    pub(crate) cpu_us: Option<u64>,
    pub(crate) max_rss_kib: Option<u64>,
    pub(crate) memory_peak_bytes: Option<u64>,
    pub(crate) limits: Vec<LimitHit>,
    pub(crate) unenforced: Vec<Unenforced>,
    pub(crate) refusals: Refusals,
    /// What the gateway refused, and why it ended, if it did before the command.
    network: (Vec<Denial>, Option<String>),
    /// What a review session came to.
    pub(crate) reviewed: Option<Reviewed>,
    failure: Option<atoll_guest::message::Failure>,
    notes: Notes,
    /// Names of the project that belong to somebody else.
    others: Vec<String>,
    warnings: Vec<String>,
}

impl Report {
    pub(super) fn new(told: Told, outcome: Outcome, unenforced: Vec<Unenforced>) -> Self {
        let moments = told.moments;
        let since = |moment: u64| moment.saturating_sub(moments.started);
        let timeline = Timeline {
            planned: since(moments.planned),
            cloned: since(moments.cloned),
            view_ready: since(moments.view_ready),
            confined: since(moments.confined),
            running: since(moments.running),
            ended: since(moments.ended),
            done: since(atoll_guest::workload::now_us()),
            seccomp: moments.walls,
        };
        let limits = if told.private_space_full {
            vec![LimitHit { limit: Limit::Disk, count: 1 }]
        } else {
            Vec::new()
        };
        Self {
            outcome,
            timeline,
            cpu_us: told.cpu_us,
            max_rss_kib: told.max_rss_kib,
            memory_peak_bytes: None,
            limits,
            unenforced,
            refusals: Refusals::read(&told.refused),
            network: Default::default(),
            reviewed: None,
            failure: told.failure,
            notes: Notes::default(),
            others: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Adds a guess at why `command` failed, if it did and its name says enough.
    pub(super) fn guess(&mut self, command: &[OsString]) {
        if self.exit_status() == 0 || self.outcome.timed_out {
            return;
        }
        self.refusals.refused.extend(hints::guess(command).map(|refusal| (refusal, 1)));
    }

    /// Looks for files of other owners, if the command failed and nothing says why.
    pub(super) fn look_for_others(&mut self, owned: Option<&Owned>) {
        if self.has_failed_untold() {
            self.others = owned.map(Owned::others).unwrap_or_default();
        }
    }

    /// What the gateway has told.
    pub(super) fn network(&mut self, told: (Vec<Denial>, Option<String>)) {
        self.network = told;
    }

    pub(super) fn outside(&mut self, notes: Notes, warnings: Vec<String>) {
        self.notes = notes;
        self.warnings = warnings;
    }

    /// The exit status that stands for this end: the command's own, 124 after a
    /// timeout, 125 where we failed, 126 and 127 as a shell has them.
    pub(crate) fn exit_status(&self) -> u8 {
        match &self.failure {
            Some(failure) => match failure.kind {
                FailureKind::Jail | FailureKind::Directory => EXIT_OURS,
                FailureKind::NotExecutable => 126,
                FailureKind::NotFound => 127,
            },
            None => self.outcome.exit_status(EXIT_OURS),
        }
    }

    /// Why there was no command, or no end of one.
    pub(crate) fn error(&self) -> Option<CliError> {
        if let Some(failure) = &self.failure {
            let error = CliError::new(failure.text.clone()).exit_with(self.exit_status());
            return Some(match failure.kind {
                FailureKind::Jail => explained(error, &failure.step, failure.errno),
                FailureKind::NotFound => error.hint(
                    "inside, only what is installed on the system, the project and toolchains \
                     under HOME are found; `--read PATH` shows more",
                ),
                FailureKind::NotExecutable | FailureKind::Directory => error,
            });
        }
        let End::Lost(lost) = self.outcome.end else { return None };
        if self.outcome.timed_out {
            return None;
        }
        let how = match lost {
            Lost::Exited(status) => format!("its first process exited with {status}"),
            Lost::Killed(signal) => format!("its first process was killed by signal {signal}"),
            Lost::Unknown => "its first process is gone".to_owned(),
        };
        Some(CliError::new(format!("the sandbox is lost: {how}")))
    }

    /// The lines for people and agents, each with its cause and what would help.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = self.refusals.lines();
        lines.extend(self.network_lines());
        lines.extend(self.hidden_line());
        lines.extend(self.others_line());
        if self.exit_status() == 128 + SIGSYS {
            lines.push(
                "atoll: ended by SIGSYS: a program made calls of another architecture; 32-bit \
                 programs do not run here"
                    .to_owned(),
            );
        }
        for hit in &self.limits {
            lines.push(match hit.limit {
                Limit::Memory => "atoll: out of memory: the kernel killed a process at the \
                                  memory limit; a higher one is --memory SIZE"
                    .to_owned(),
                Limit::Pids => "atoll: too many processes: fork failed at the limit; a higher \
                                one is --pids N"
                    .to_owned(),
                Limit::Disk => "atoll: private space full: /tmp, HOME and /dev/shm share it; \
                                more is --disk SIZE"
                    .to_owned(),
                Limit::Time => "atoll: timed out: everything was killed at the time limit; a \
                                longer one is --timeout TIME"
                    .to_owned(),
            });
        }
        if let Some(Reviewed { session: Some(session), changed }) = &self.reviewed {
            lines.push(format!(
                "atoll: {} changed under review in {session}: `atoll diff` shows, `atoll apply` \
                 applies, `atoll discard` throws away",
                counted(changed.len(), "path"),
            ));
        }
        for missing in &self.unenforced {
            lines.push(format!("atoll: {missing}"));
        }
        lines
    }

    /// What was refused on the network; the same for many ports of a host is one line for each.
    fn network_lines(&self) -> Vec<String> {
        let (denials, ended) = &self.network;
        let mut lines: Vec<String> = denials.iter().take(NETWORK_LINES_MAX).map(denied).collect();
        if let Some(more) = denials.len().checked_sub(NETWORK_LINES_MAX).filter(|more| *more > 0) {
            lines.push(format!("atoll: network: {more} more denials; --json lists all"));
        }
        if let Some(why) = ended {
            lines.push(format!("atoll: network: closed, since the gateway ended: {why}"));
        }
        lines
    }

    /// Masks and whiteouts tell nobody who has met them. So when a command fails
    /// where something is hidden, that may be why, if nothing else is told.
    fn hidden_line(&self) -> Option<String> {
        (self.has_failed_untold() && !self.notes.hidden.is_empty()).then(|| {
            format!(
                "atoll: hidden in this project, which may be why it failed: {}",
                notes::listed(&self.notes.hidden)
            )
        })
    }

    /// Nor is there anybody who could tell that a file's owner was in the way.
    fn others_line(&self) -> Option<String> {
        let (first, more) = self.others.split_first()?;
        let more = match more.len() {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        Some(format!(
            "atoll: files of other owners, which may be why it failed, since inside they are \
             nobody's: {}{more}",
            escaped(first)
        ))
    }

    fn has_failed_untold(&self) -> bool {
        self.failure.is_none()
            && matches!(self.outcome.end, End::Exited(status) if status != 0)
            && self.refusals.refused.is_empty()
    }

    /// The one JSON object.
    pub(crate) fn json(&self) -> String {
        let (exit, signal) = match self.outcome.end {
            End::Signaled(signal) => (None, Some(signal)),
            _ => (Some(self.exit_status()), None),
        };
        let unenforced: Vec<String> = self.unenforced.iter().map(ToString::to_string).collect();
        let changed = self.reviewed.as_ref().map(|reviewed| {
            let one = |(kind, path): &(&str, PathBuf)| {
                serde_json::json!({ "kind": kind, "path": path.to_string_lossy() })
            };
            reviewed.changed.iter().map(one).collect::<Vec<_>>()
        });
        let denials: Vec<_> = self
            .refusals
            .refused
            .iter()
            .map(|(refusal, count)| serde_json::json!({ "refusal": refusal, "count": count }))
            .collect();
        let value = serde_json::json!({
            "exit": exit,
            "signal": signal,
            "status": self.exit_status(),
            "timed_out": self.outcome.timed_out,
            "error": self.failure.as_ref().map(|failure| serde_json::json!({
                "step": failure.step, "message": failure.text, "errno": failure.errno,
            })),
            "timeline": self.timeline,
            "usage": {
                "cpu_us": self.cpu_us,
                "max_rss_kib": self.max_rss_kib,
                "memory_peak_bytes": self.memory_peak_bytes,
            },
            "limits_hit": self.limits,
            "unenforced": unenforced,
            "denials": denials,
            "network": { "denials": self.network.0, "ended": self.network.1 },
            "noticed": self.refusals.noticed,
            "session": self.reviewed.as_ref().and_then(|reviewed| reviewed.session.clone()),
            "changed_files": changed,
            "environment": {
                "dropped": texts(&self.notes.variables),
                "hidden_path": texts(&self.notes.path),
            },
            "hidden": self.notes.hidden.iter().take(HIDDEN_MAX).collect::<Vec<_>>(),
            "warnings": self.warnings,
        });
        value.to_string()
    }
}

/// Refusals of the network that are told line by line at most.
const NETWORK_LINES_MAX: usize = 20;

fn denied(denial: &Denial) -> String {
    let port = (denial.protocol != Protocol::Dns).then_some(denial.port);
    denial::line(&denial::Said {
        code: &denial.code,
        host: &denial.host,
        port,
        method: denial.method.as_deref(),
        path: denial.path.as_deref(),
        rule: denial.rule.as_deref(),
        message: &denial.message,
        next_step: &denial.next_step,
        count: denial.count,
    })
}

/// Hidden paths that the JSON lists at most.
const HIDDEN_MAX: usize = 100;

fn texts(names: &[impl AsRef<OsStr>]) -> Vec<String> {
    names.iter().map(|name| name.as_ref().to_string_lossy().into_owned()).collect()
}

/// "1 path", "2 paths".
fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
