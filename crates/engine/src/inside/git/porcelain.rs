//! What `git status --porcelain=v2 --branch -z` prints, read (git-status(1)).

use atoll_api::git::{GitChange, GitEntry, GitStatus};
use atoll_api::octets::Octets;

/// Most entries that are told.
pub(super) const ENTRIES_COUNT_MAX: usize = 10_000;

/// Reads a status. What is of no form that git documents is left out; where the end was
/// cut off, so is the last record.
pub(super) fn parse(bytes: &[u8], is_cut: bool) -> GitStatus {
    let mut status = GitStatus { is_cut, ..GitStatus::default() };
    let whole = match bytes.iter().rposition(|&byte| byte == 0) {
        Some(end) => &bytes[..end],
        None => return status,
    };
    let mut records = whole.split(|&byte| byte == 0);
    while let Some(record) = records.next() {
        let entry = match record {
            [b'#', b' ', header @ ..] => {
                note(&mut status, header);
                continue;
            }
            [b'1', b' ', rest @ ..] => changed(rest, 6),
            [b'2', b' ', rest @ ..] => {
                // Its old path is a record of its own, which may be cut off.
                let Some(from) = records.next() else {
                    status.is_cut = true;
                    break;
                };
                changed(rest, 7).and_then(|entry| {
                    Some(GitEntry { from: Some(Octets::new(from).ok()?), ..entry })
                })
            }
            [b'u', b' ', rest @ ..] => changed(rest, 8).map(|entry| GitEntry {
                index: GitChange::Unmerged,
                worktree: GitChange::Unmerged,
                ..entry
            }),
            [b'?', b' ', path @ ..] => whole_change(path, GitChange::Untracked),
            [b'!', b' ', path @ ..] => whole_change(path, GitChange::Ignored),
            _ => None,
        };
        let Some(entry) = entry else { continue };
        if status.entries.len() == ENTRIES_COUNT_MAX {
            status.is_cut = true;
            break;
        }
        status.entries.push(entry);
    }
    status
}

fn note(status: &mut GitStatus, header: &[u8]) {
    let header = String::from_utf8_lossy(header);
    let Some((key, value)) = header.split_once(' ') else { return };
    match key {
        "branch.oid" if value != "(initial)" => status.commit = Some(value.to_owned()),
        "branch.head" if value != "(detached)" => status.branch = Some(value.to_owned()),
        "branch.upstream" => status.upstream = Some(value.to_owned()),
        "branch.ab" => {
            let counts = value.split_once(' ').and_then(|(ahead, behind)| {
                Some((
                    ahead.strip_prefix('+')?.parse().ok()?,
                    behind.strip_prefix('-')?.parse().ok()?,
                ))
            });
            if let Some(counts) = counts {
                (status.ahead, status.behind) = counts;
            }
        }
        _ => {}
    }
}

/// A record that begins with two letters and has its path behind so many other fields.
fn changed(rest: &[u8], fields_between: usize) -> Option<GitEntry> {
    let mut fields = rest.splitn(fields_between + 2, |&byte| byte == b' ');
    let &[index, worktree] = fields.next()? else { return None };
    let path = fields.nth(fields_between)?;
    let (index, worktree) = (change(index)?, change(worktree)?);
    Some(GitEntry { path: name(path)?, from: None, index, worktree })
}

fn whole_change(path: &[u8], change: GitChange) -> Option<GitEntry> {
    Some(GitEntry { path: name(path)?, from: None, index: GitChange::Unmodified, worktree: change })
}

fn name(path: &[u8]) -> Option<Octets> {
    if path.is_empty() { None } else { Octets::new(path).ok() }
}

fn change(letter: u8) -> Option<GitChange> {
    Some(match letter {
        b'.' => GitChange::Unmodified,
        b'M' => GitChange::Modified,
        b'T' => GitChange::TypeChanged,
        b'A' => GitChange::Added,
        b'D' => GitChange::Deleted,
        b'R' => GitChange::Renamed,
        b'C' => GitChange::Copied,
        b'U' => GitChange::Unmerged,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OID: &str = "0123456789abcdef0123456789abcdef01234567";

    fn ordinary(letters: &str, path: &[u8]) -> Vec<u8> {
        let head = format!("1 {letters} N... 100644 100644 100644 {OID} {OID} ");
        [head.as_bytes(), path, b"\0"].concat()
    }

    fn renamed(path: &[u8], from: &[u8]) -> Vec<u8> {
        let head = format!("2 R. N... 100644 100644 100644 {OID} {OID} R100 ");
        [head.as_bytes(), path, b"\0", from, b"\0"].concat()
    }

    #[test]
    fn a_status_with_everything_in_it() {
        let head = format!(
            "# branch.oid {OID}\0# branch.head main\0# branch.upstream origin/main\0\
             # branch.ab +2 -13\0# stash 1\0"
        );
        let unmerged =
            format!("u UU N... 100644 100644 100644 100644 {OID} {OID} {OID} both sides\0");
        let text = [
            head.as_bytes(),
            &ordinary("M.", b"a b"),
            &ordinary(".D", b"\xff"),
            &renamed(b"new", b"old name"),
            unmerged.as_bytes(),
            b"? dir/\0! target/\0",
        ]
        .concat();
        let status = parse(&text, false);
        insta::assert_json_snapshot!(status, @r#"
        {
          "branch": "main",
          "commit": "0123456789abcdef0123456789abcdef01234567",
          "upstream": "origin/main",
          "ahead": 2,
          "behind": 13,
          "entries": [
            {
              "path": "a b",
              "index": "modified",
              "worktree": "unmodified"
            },
            {
              "path": {
                "hex": "ff"
              },
              "index": "unmodified",
              "worktree": "deleted"
            },
            {
              "path": "new",
              "from": "old name",
              "index": "renamed",
              "worktree": "unmodified"
            },
            {
              "path": "both sides",
              "index": "unmerged",
              "worktree": "unmerged"
            },
            {
              "path": "dir/",
              "index": "unmodified",
              "worktree": "untracked"
            },
            {
              "path": "target/",
              "index": "unmodified",
              "worktree": "ignored"
            }
          ],
          "is_cut": false
        }
        "#);
    }

    #[test]
    fn before_the_first_commit_and_without_a_branch() {
        let first = parse(b"# branch.oid (initial)\0# branch.head main\0", false);
        assert_eq!((first.commit, first.branch.as_deref()), (None, Some("main")));
        let detached = format!("# branch.oid {OID}\0# branch.head (detached)\0");
        let detached = parse(detached.as_bytes(), false);
        assert_eq!((detached.commit.as_deref(), detached.branch), (Some(OID), None));
    }

    #[test]
    fn entries_are_told_up_to_a_limit() {
        let text = b"? a\0".repeat(ENTRIES_COUNT_MAX + 1);
        let status = parse(&text, false);
        assert_eq!((status.entries.len(), status.is_cut), (ENTRIES_COUNT_MAX, true));
    }

    fn path() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(1..=255_u8, 1..12)
    }

    proptest! {
        #[test]
        fn every_name_is_read_exactly(
            names in proptest::collection::vec((0..3_u8, path(), path()), 0..8),
        ) {
            let mut text = Vec::new();
            for (kind, path, from) in &names {
                match kind {
                    0 => text.extend(ordinary("MM", path)),
                    1 => text.extend(renamed(path, from)),
                    _ => text.extend([b"? ", &path[..], b"\0"].concat()),
                }
            }
            let status = parse(&text, false);
            prop_assert_eq!(status.entries.len(), names.len());
            for (entry, (kind, path, from)) in status.entries.iter().zip(&names) {
                prop_assert_eq!(entry.path.as_bytes(), &path[..]);
                let found = entry.from.as_ref().map(Octets::as_bytes);
                prop_assert_eq!(found, (*kind == 1).then_some(&from[..]));
            }
        }

        #[test]
        fn what_is_cut_anywhere_is_a_beginning(
            paths in proptest::collection::vec(path(), 1..6), at in 0..1000_usize,
        ) {
            let text: Vec<u8> = paths.iter().flat_map(|path| renamed(path, path)).collect();
            let whole = parse(&text, false);
            let part = parse(&text[..at.min(text.len())], true);
            prop_assert!(part.is_cut && whole.entries.starts_with(&part.entries));
        }

        #[test]
        fn noise_is_read_without_harm(bytes: Vec<u8>, records in proptest::collection::vec(
            "[12u?!#] [A-Z.]{0,3}[ a-z0-9.+-]{0,60}", 0..6,
        )) {
            parse(&bytes, false);
            parse(records.join("\0").as_bytes(), false);
        }
    }
}
