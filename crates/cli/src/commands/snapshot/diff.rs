//! `atoll snapshot diff`.

use crate::error::CliError;
use crate::remote::{self, Format, Remote};
use crate::status::Status;
use atoll_api::id::SnapshotId;
use atoll_api::octets::Octets;
use atoll_api::snapshot::{DIFF_COUNT_MAX, DiffSnapshots, Difference, SnapshotDiff};
use atoll_store::escape::escape;
use std::fmt::Write as _;
use std::io::Write as _;

/// Show what differs between two snapshots
///
/// A line for each path: A for one that was added, D deleted, M modified, T of another kind, X for
/// other permissions, owners or extended attributes alone. Of one snapshot it is what has changed
/// since the one before it; if there is none, since its image and an empty home. Names with control
/// characters or bytes that are not UTF-8 are written with \\xNN.
///
/// Example: atoll snapshot diff snp_0001020304050607abff
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The id of a snapshot: of two, the earlier one
    snapshot: SnapshotId,
    /// The id of the later one
    later: Option<SnapshotId>,
    /// Show at most this many paths
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=DIFF_COUNT_MAX.into()))]
    limit: Option<u32>,
    #[command(flatten)]
    remote: Remote,
}

pub(super) fn run(args: &Args) -> Result<Status, CliError> {
    let (of, with) = match args.later {
        Some(later) => (later, Some(args.snapshot)),
        None => (args.snapshot, None),
    };
    let wanted = DiffSnapshots { with, limit: args.limit };
    let found = args.remote.ask(async |client| client.diff_snapshots(of, &wanted).await)?;
    let told = remote::answer(&args.remote, &found, lines)?;
    if args.remote.format() == Format::Text {
        // After the paths, so that a pager or a file gets only these.
        std::io::stderr().write_all(notes(&found).as_bytes()).ok();
    }
    Ok(told)
}

fn lines(found: &SnapshotDiff) -> String {
    let line = |difference: Difference, path: &Octets| {
        format!("{} {}\n", letter(difference), escape(path.as_path()))
    };
    found.entries.iter().map(|entry| line(entry.difference, &entry.path)).collect()
}

/// As in `atoll diff`.
fn letter(difference: Difference) -> char {
    match difference {
        Difference::Added => 'A',
        Difference::Removed => 'D',
        Difference::Modified => 'M',
        Difference::Attributes => 'X',
        Difference::Type => 'T',
    }
}

/// What is not in the lines.
fn notes(found: &SnapshotDiff) -> String {
    let mut text = String::new();
    for one in &found.uncompared {
        writeln!(text, "atoll: not compared: {}: {}", escape(one.path.as_path()), one.reason).ok();
    }
    if found.is_cut {
        writeln!(text, "atoll: there are more differences than these").ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_a_path_differs_and_what_is_missing_is_said() {
        let entry = |difference: &str, path: serde_json::Value| serde_json::json!({"path": path, "difference": difference});
        let found: SnapshotDiff = serde_json::from_value(serde_json::json!({
            "snapshot_id": "snp_00000000000000000000",
            "entries": [
                entry("added", "/home/user/new\nline".into()),
                entry("removed", serde_json::json!({"hex": "2fff"})),
                entry("modified", "/etc/hosts".into()),
                entry("attributes", "/a".into()),
                entry("type", "/b".into()),
            ],
            "uncompared": [{"path": "/shut\u{1b}", "reason": "cannot be read"}],
            "is_cut": true,
        }))
        .unwrap();
        assert_eq!(
            lines(&found),
            "A /home/user/new\\x0aline\nD /\\xff\nM /etc/hosts\nX /a\nT /b\n"
        );
        assert_eq!(
            notes(&found),
            "atoll: not compared: /shut\\x1b: cannot be read\n\
             atoll: there are more differences than these\n"
        );
    }
}
