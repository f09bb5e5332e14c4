//! The JSON that programs read. Fields are only ever added.

use super::{Review, word};
use atoll_store::apply::Outcome;
use atoll_store::changes::{Change, Conflict};
use atoll_store::escape::escape;
use atoll_store::node::{FileKind, Node};
use atoll_store::session::{Listed, Session};
use serde_json::{Value, json};

/// The object that `atoll diff --json` prints.
pub(crate) fn changes_json(review: &Review) -> Value {
    let change = |change: &Change| {
        let risks: Vec<Value> = review
            .risks(change)
            .iter()
            .map(|risk| json!({"kind": risk.kind.name(), "reason": risk.reason}))
            .collect();
        json!({
            "path": escape(&change.path),
            "change": word(change.kind),
            "before": change.before.as_ref().map(node),
            "after": change.after.as_ref().map(node),
            "renamed_from": change.renamed_from.as_deref().map(escape),
            "conflict": change.conflict.map(conflict_word),
            "risks": risks,
        })
    };
    let rejected: Vec<Value> = review
        .changes
        .rejected
        .iter()
        .map(|rejected| json!({"path": escape(&rejected.path), "reason": rejected.why.reason()}))
        .collect();
    json!({
        "session": session(&review.session),
        "changes": review.changes.list.iter().map(change).collect::<Vec<_>>(),
        "rejected": rejected,
    })
}

/// The object that `atoll diff --list --json` prints.
pub(crate) fn list_json(listed: &Listed) -> Value {
    let broken = |(id, error): &(String, atoll_store::session::SessionError)| json!({"id": id, "error": error.to_string()});
    json!({
        "sessions": listed.sessions.iter().map(session).collect::<Vec<_>>(),
        "broken": listed.broken.iter().map(broken).collect::<Vec<_>>(),
    })
}

/// The object that `atoll apply --json` prints.
pub(crate) fn apply_json(session_id: &str, outcome: &Outcome, is_removed: bool) -> Value {
    let conflict = |(path, conflict): &(std::path::PathBuf, Conflict)| json!({"path": escape(path), "conflict": conflict_word(*conflict), "reason": conflict.reason()});
    let kept = |(path, kept): &(std::path::PathBuf, std::path::PathBuf)| json!({"path": escape(path), "kept_as": escape(kept)});
    json!({
        "session": session_id,
        "applied": outcome.applied.iter().map(|path| escape(path)).collect::<Vec<_>>(),
        "conflicts": outcome.conflicts.iter().map(conflict).collect::<Vec<_>>(),
        "kept": outcome.kept.iter().map(kept).collect::<Vec<_>>(),
        "left_out": outcome.left_out,
        "session_removed": is_removed,
    })
}

fn session(session: &Session) -> Value {
    let record = session.record();
    json!({
        "id": session.id(),
        "project": escape(&record.project),
        "started_s": record.started.sec,
        "running_pid": session.running_pid(),
    })
}

fn node(node: &Node) -> Value {
    json!({
        "type": kind_word(node.kind),
        "mode": format!("{:04o}", node.mode),
        "size_bytes": node.size,
        "target": node.target.as_deref().map(escape),
    })
}

fn kind_word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Dir => "directory",
        FileKind::Symlink => "symlink",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::CharDevice => "character_device",
        FileKind::BlockDevice => "block_device",
        FileKind::Unknown => "unknown",
    }
}

fn conflict_word(conflict: Conflict) -> &'static str {
    match conflict {
        Conflict::Changed => "changed",
        Conflict::Gone => "gone",
        Conflict::Replaced => "replaced",
        Conflict::Masked => "masked",
        Conflict::Contains => "contains",
    }
}
