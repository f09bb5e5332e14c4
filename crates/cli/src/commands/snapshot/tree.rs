//! `atoll snapshot tree`: what came of what, and where each sandbox stands.
//!
//! ```text
//!     o snp_0…  taken first
//!     ├─@ attempt    a sandbox that was made of it
//!     o snp_1…  taken next
//!     ├─o snp_3…  of a sandbox that was made of snp_1
//!     │ @ other
//!     @ web        stands here
//! ```
//!
//! What came last goes on in the same column, so that a long story is not a wide one.

use super::{all, labels, sandbox};
use crate::error::CliError;
use crate::remote::{Format, Remote, lines, neutral, say};
use crate::status::Status;
use atoll_api::id::SnapshotId;
use atoll_api::sandbox::{ListSandboxes, PAGE_COUNT_MAX, Sandbox};
use atoll_api::snapshot::{ListSnapshots, Snapshot};
use atoll_client::{Client, ClientError};
use serde::Serialize;
use std::collections::BTreeMap;

/// Draw which snapshot came of which, and where each sandbox stands
///
/// Every snapshot is an `o` below the one that it came of, every sandbox an `@` below the one that
/// it came of, was put back to, or was taken of it last.
///
/// Example: atoll snapshot tree web
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only the tree that the sandbox of this id or name stands in
    sandbox: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

/// A line of the drawing, for programs.
#[derive(Debug, Serialize)]
struct Drawn<'a> {
    /// How many branches it is away from the trunk.
    depth: usize,
    snapshot: &'a Snapshot,
    /// The sandboxes that stand there.
    sandboxes: Vec<&'a Sandbox>,
}

/// What hangs below a snapshot.
enum Item<'a> {
    Snapshot(&'a Snapshot),
    Sandbox(&'a Sandbox),
}

pub(super) fn run(args: &Args) -> Result<Status, CliError> {
    let (snapshots, sandboxes, only) = args.remote.ask(async |client| {
        let only = match &args.sandbox {
            Some(sandbox) => Some(client.get_sandbox(sandbox).await?),
            None => None,
        };
        let snapshots = all(&client, None, ListSnapshots::default()).await?;
        Ok((snapshots, every_sandbox(&client).await?, only))
    })?;
    let tree = Tree::of(&snapshots, &sandboxes);
    let roots = tree.roots(only.as_ref().map(|only| only.snapshot_id));
    let text = match args.remote.format() {
        Format::Json => lines(&tree.lines(&roots)),
        Format::Text => tree.draw(&roots),
    };
    say(&text).map(|_| Status::SUCCESS)
}

async fn every_sandbox(client: &Client) -> Result<Vec<Sandbox>, ClientError> {
    let page_count = Some(PAGE_COUNT_MAX);
    let mut wanted = ListSandboxes { page_count, ..ListSandboxes::default() };
    let mut found = Vec::new();
    loop {
        let page = client.list_sandboxes(&wanted).await?;
        found.extend(page.sandboxes);
        wanted.cursor = page.next;
        if wanted.cursor.is_none() {
            return Ok(found);
        }
    }
}

struct Tree<'a> {
    by_id: BTreeMap<SnapshotId, &'a Snapshot>,
    /// In the order of the list, which is that of time.
    all: &'a [Snapshot],
    below: BTreeMap<SnapshotId, Vec<&'a Snapshot>>,
    sandboxes: BTreeMap<SnapshotId, Vec<&'a Sandbox>>,
}

impl<'a> Tree<'a> {
    fn of(all: &'a [Snapshot], sandboxes: &'a [Sandbox]) -> Self {
        let by_id = all.iter().map(|one| (one.id, one)).collect();
        let mut tree = Self { by_id, all, below: BTreeMap::new(), sandboxes: BTreeMap::new() };
        for one in all {
            if let Some(parent) = tree.parent(one) {
                tree.below.entry(parent).or_default().push(one);
            }
        }
        for sandbox in sandboxes {
            if let Some(snapshot) = sandbox.snapshot_id {
                tree.sandboxes.entry(snapshot).or_default().push(sandbox);
            }
        }
        tree
    }

    fn parent(&self, one: &Snapshot) -> Option<SnapshotId> {
        one.parent_id.filter(|parent| self.by_id.contains_key(parent))
    }

    /// The roots of all trees, or that of the one with this snapshot in it.
    fn roots(&self, only: Option<Option<SnapshotId>>) -> Vec<&'a Snapshot> {
        let Some(only) = only else {
            return self.all.iter().filter(|one| self.parent(one).is_none()).collect();
        };
        let mut root = only.and_then(|id| self.by_id.get(&id).copied());
        // A server that tells of a circle does not keep us in it.
        for _ in self.all {
            let above = root.and_then(|one| self.parent(one));
            let Some(above) = above.and_then(|id| self.by_id.get(&id).copied()) else { break };
            root = Some(above);
        }
        root.into_iter().collect()
    }

    /// What hangs below a snapshot, what goes on in its column last.
    fn items(&self, id: SnapshotId) -> Vec<Item<'a>> {
        let sandboxes = self.sandboxes.get(&id).into_iter().flatten().copied();
        let below = self.below.get(&id).into_iter().flatten().copied();
        sandboxes.map(Item::Sandbox).chain(below.map(Item::Snapshot)).collect()
    }

    /// Goes through everything in the order of the drawing; without recursion, since a story may
    /// be long.
    fn walk(&self, roots: &[&'a Snapshot], mut visit: impl FnMut(&[bool], &Item<'a>)) {
        // The branches above each item: whether it begins the last of them.
        let mut left: Vec<(usize, bool, Item<'a>)> =
            roots.iter().rev().map(|root| (0, false, Item::Snapshot(root))).collect();
        while let Some((depth, is_branch, item)) = left.pop() {
            let columns: Vec<bool> =
                (1..=depth).map(|column| column == depth && is_branch).collect();
            visit(&columns, &item);
            let Item::Snapshot(one) = item else { continue };
            let items = self.items(one.id);
            let last = items.len().saturating_sub(1);
            let items = items.into_iter().enumerate().map(|(number, item)| {
                let is_branch = number != last;
                (depth + usize::from(is_branch), is_branch, item)
            });
            let at = left.len();
            left.extend(items);
            left[at..].reverse();
        }
    }

    fn draw(&self, roots: &[&'a Snapshot]) -> String {
        let mut text = String::new();
        self.walk(roots, |columns, item| {
            for is_branch in columns {
                text += if *is_branch { "├─" } else { "│ " };
            }
            let words = match item {
                Item::Snapshot(one) => {
                    let labels = labels(&one.labels);
                    format!("o {} {} of {} {labels}", one.id, one.created_at, sandbox(one))
                }
                Item::Sandbox(one) => {
                    let name = one.name.as_ref().map(|name| format!(" {name}"));
                    format!("@ {}{} ({})", one.id, name.unwrap_or_default(), one.state)
                }
            };
            text += neutral(&words).trim_end();
            text.push('\n');
        });
        text
    }

    fn lines(&self, roots: &[&'a Snapshot]) -> Vec<Drawn<'a>> {
        let mut drawn = Vec::new();
        self.walk(roots, |columns, item| {
            if let Item::Snapshot(snapshot) = item {
                let sandboxes = self.sandboxes.get(&snapshot.id).cloned().unwrap_or_default();
                drawn.push(Drawn { depth: columns.len(), snapshot, sandboxes });
            }
        });
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn id(prefix: &str, number: u32) -> String {
        format!("{prefix}_{number:020}")
    }

    fn snapshot(number: u32, parent: Option<u32>) -> Snapshot {
        let mut value = json!({
            "id": id("snp", number), "sandbox_id": id("sbx", 1), "sandbox_name": "web",
            "created_at": "2026-01-01T00:00:00Z", "labels": {}, "image": "host",
            "tier": "container", "limits": {}, "way": "copy", "took_us": 1, "frozen_us": 1,
            "copied_bytes": 0,
        });
        if let Some(parent) = parent {
            value["parent_id"] = json!(id("snp", parent));
        }
        serde_json::from_value(value).unwrap()
    }

    fn stands(number: u32, name: &str, at: u32) -> Sandbox {
        let value = json!({
            "id": id("sbx", number), "name": name, "state": "running", "image": "host",
            "snapshot_id": id("snp", at), "tier": "container", "labels": {}, "limits": {},
            "lifecycle": {}, "created_at": "2026-01-01T00:00:00Z",
            "state_since": "2026-01-01T00:00:00Z", "holds": [], "timeline": {},
        });
        serde_json::from_value(value).unwrap()
    }

    fn short(text: &str) -> String {
        text.replace("00000000000000000", "").replace(" 2026-01-01T00:00:00Z of web", "")
    }

    #[test]
    fn what_goes_on_stays_in_its_column() {
        let snapshots = [
            snapshot(1, None),
            snapshot(2, Some(1)),
            snapshot(3, Some(2)),
            snapshot(4, Some(2)),
            snapshot(5, Some(3)),
            snapshot(6, Some(99)),
        ];
        let sandboxes = [stands(1, "web", 4), stands(2, "try", 5), stands(3, "old", 1)];
        let tree = Tree::of(&snapshots, &sandboxes);
        insta::assert_snapshot!(short(&tree.draw(&tree.roots(None))), @r"
        o snp_001
        ├─@ sbx_003 old (running)
        o snp_002
        ├─o snp_003
        │ o snp_005
        │ @ sbx_002 try (running)
        o snp_004
        @ sbx_001 web (running)
        o snp_006
        ");
        let only = tree.roots(Some(sandboxes[1].snapshot_id));
        assert_eq!(only.iter().map(|one| one.id).collect::<Vec<_>>(), [snapshots[0].id]);
        let depths = tree.lines(&only).iter().map(|line| line.depth).collect::<Vec<_>>();
        assert_eq!(depths, [0, 0, 1, 1, 0]);
        assert!(tree.roots(Some(None)).is_empty());
    }

    #[test]
    fn a_long_story_is_not_a_wide_one_and_a_circle_none_at_all() {
        let story: Vec<Snapshot> =
            (0..20_000).map(|number| snapshot(number, number.checked_sub(1))).collect();
        let tree = Tree::of(&story, &[]);
        let text = tree.draw(&tree.roots(None));
        assert_eq!(text.lines().count(), story.len());
        assert!(text.lines().all(|line| line.starts_with("o snp_")), "{text}");
        let circle = [snapshot(1, Some(2)), snapshot(2, Some(1))];
        let tree = Tree::of(&circle, &[]);
        assert_eq!(tree.draw(&tree.roots(None)), "");
        assert_eq!(tree.roots(Some(Some(circle[0].id))).len(), 1);
    }
}
