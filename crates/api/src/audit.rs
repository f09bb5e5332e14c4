//! The audit log: what was allowed, refused, decided and run, in an order that cannot be changed
//! without a trace.

use crate::approval::{ApprovalStatus, GrantScope};
use crate::exec::{EndCause, User};
use crate::id::{ApprovalId, ArchiveId, ExecId, SandboxId, SnapshotId, VolumeId};
use crate::name::SandboxName;
use crate::secret::SecretName;
use crate::time::Timestamp;
use crate::volume::VolumeName;
use serde::{Deserialize, Serialize};

/// Most records in one answer.
pub const AUDIT_PAGE_COUNT_MAX: usize = 1000;

/// One record of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AuditRecord {
    /// Its number: each is one more than that of the record before.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// In which sandbox, if in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<SandboxId>,
    /// What happened.
    pub what: AuditKind,
    /// SHA-256 over the 32 bytes of the hash before and the record as it is written, without this
    /// field, as lower-case hexadecimal digits.
    pub hash: String,
}

/// Kinds of record. `by` is who did it: `uid:1000` on the unix socket, or the id of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AuditKind {
    /// A file of the log begins.
    Continued {
        /// The hash of the record before, which is in the file before; zeros at the very start.
        previous: String,
    },
    /// The last line of the log was not whole when a server started, and was taken away: the
    /// server before was killed, or its machine lost power, while it was written.
    Repaired {
        /// Bytes that were taken away.
        bytes: u64,
    },
    /// Records did not fit into memory while the log could not be written.
    Lost {
        /// How many.
        count: u64,
    },
    /// The oldest file of the log made room.
    LetGo {
        /// The number of its last record.
        through: u64,
    },
    /// A server started.
    ServerStarted {
        /// Its version.
        version: String,
        /// The server before ended in order, or there was none.
        was_in_order: bool,
    },
    /// A server ended in order.
    ServerStopped,
    /// A sandbox was made.
    SandboxCreated {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<SandboxName>,
        /// What it is made of.
        image: String,
    },
    /// A sandbox was deleted.
    SandboxDeleted {
        /// Who or what wanted it, as in `request`.
        reason: String,
    },
    /// A snapshot was taken of a sandbox.
    SnapshotTaken {
        /// Which.
        snapshot_id: SnapshotId,
    },
    /// A snapshot was deleted.
    SnapshotDeleted {
        /// Which.
        snapshot_id: SnapshotId,
        /// Who or what wanted it, as in `request` or `delete_after_ms`.
        reason: String,
    },
    /// A snapshot was put into object storage.
    SnapshotArchived {
        /// Which.
        snapshot_id: SnapshotId,
        /// What came of it.
        archive_id: ArchiveId,
    },
    /// A sandbox's files were put into object storage.
    SandboxArchived {
        /// What came of it.
        archive_id: ArchiveId,
    },
    /// An archived sandbox's files are back on this host.
    SandboxUnarchived {
        /// Of which archive.
        archive_id: ArchiveId,
    },
    /// An archive was deleted.
    ArchiveDeleted {
        /// Which.
        archive_id: ArchiveId,
    },
    /// A snapshot was made of an archive.
    ArchiveRestored {
        /// Which.
        archive_id: ArchiveId,
        /// What came of it.
        snapshot_id: SnapshotId,
    },
    /// A sandbox was put back to a snapshot.
    SandboxRestored {
        /// Which.
        snapshot_id: SnapshotId,
    },
    /// A volume was made.
    VolumeCreated {
        /// Which.
        volume_id: VolumeId,
        /// Its name.
        name: VolumeName,
        /// The one that it is a copy of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        copy_of: Option<VolumeId>,
        /// The folder of the server's machine that it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host_path: Option<String>,
        /// Who made it.
        by: String,
    },
    /// A pool was made.
    PoolCreated {
        /// Its name.
        name: String,
        /// Who made it.
        by: String,
    },
    /// A pool was deleted.
    PoolDeleted {
        /// Its name.
        name: String,
        /// Who deleted it.
        by: String,
    },
    /// The limit of a volume was changed.
    VolumeLimited {
        /// Which.
        volume_id: VolumeId,
        /// Its name.
        name: VolumeName,
        /// Bytes that may lie on it; any number where nothing is said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        /// Who changed it.
        by: String,
    },
    /// A volume was deleted.
    VolumeDeleted {
        /// Which.
        volume_id: VolumeId,
        /// Its name.
        name: VolumeName,
        /// Who deleted it.
        by: String,
    },
    /// A command was started. Its environment and its input are not recorded.
    ExecStarted {
        /// Which.
        exec_id: ExecId,
        /// What was run. Values of secrets are replaced, as in `[secret GITHUB]`.
        argv: Vec<String>,
        /// There is more of it than was recorded.
        is_cut: bool,
        /// As whom.
        user: User,
    },
    /// A command ended, as somebody saw who followed it.
    ExecEnded {
        /// Which.
        exec_id: ExecId,
        /// Its exit status.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<u8>,
        /// The number of the signal that ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
        /// Why it was ended, if it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<EndCause>,
    },
    /// A secret was set.
    SecretSet {
        /// Its name.
        name: SecretName,
        /// There was none of that name.
        is_new: bool,
        /// Who set it.
        by: String,
    },
    /// A secret was deleted.
    SecretDeleted {
        /// Its name.
        name: SecretName,
        /// Who deleted it.
        by: String,
    },
    /// A secret was put into what left a sandbox: the first time for each host.
    SecretUsed {
        /// Its name.
        name: SecretName,
        /// Where it went.
        host: String,
        /// To which port.
        port: u16,
    },
    /// The value of a secret was put into a file inside, at the start of a sandbox.
    SecretShown {
        /// Its name.
        name: SecretName,
        /// The file.
        path: String,
    },
    /// A connection or a request was let out: the first one of a host, port and rule.
    EgressAllowed {
        /// Where it went.
        host: String,
        /// To which port.
        port: u16,
        /// The rule that let it out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
    },
    /// A name, a connection or a request was refused.
    EgressDenied {
        /// Why, as in `not-allowed`.
        code: String,
        /// Where it wanted to go.
        host: String,
        /// To which port.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
        /// The method of a request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        method: Option<String>,
        /// The path of a request, without its query.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// The rule that refused it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// How often since it was last recorded.
        count: u64,
    },
    /// A sandbox asked for something that a rule says to ask for.
    ApprovalCreated {
        /// The approval.
        approval_id: ApprovalId,
        /// The rule.
        rule: String,
        /// What of it.
        name: String,
    },
    /// An approval was decided, or taken back.
    ApprovalDecided {
        /// Which.
        approval_id: ApprovalId,
        /// How.
        status: ApprovalStatus,
        /// How far it reaches, if it was approved.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scope: Option<GrantScope>,
        /// Until when it holds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
        /// Why, if that was said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Who decided.
        by: String,
    },
    /// Nobody decided an approval in time, or its sandbox is gone.
    ApprovalExpired {
        /// Which.
        approval_id: ApprovalId,
    },
    /// What a sandbox may do was changed.
    PolicyChanged {
        /// Which part, as in `network`.
        part: String,
        /// SHA-256 of what it is now, as it is kept.
        sha256: String,
        /// Who changed it.
        by: String,
    },
    /// The gateway was started.
    GatewayStarted,
    /// The gateway ended without having been asked to.
    GatewayDied {
        /// How.
        cause: String,
    },
    /// Something that a newer server records.
    #[serde(other)]
    Unknown,
}

impl AuditKind {
    /// The word for it on the wire.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Continued { .. } => "continued",
            Self::Repaired { .. } => "repaired",
            Self::Lost { .. } => "lost",
            Self::LetGo { .. } => "let_go",
            Self::ServerStarted { .. } => "server_started",
            Self::ServerStopped => "server_stopped",
            Self::SandboxCreated { .. } => "sandbox_created",
            Self::SandboxDeleted { .. } => "sandbox_deleted",
            Self::SnapshotTaken { .. } => "snapshot_taken",
            Self::SnapshotDeleted { .. } => "snapshot_deleted",
            Self::SnapshotArchived { .. } => "snapshot_archived",
            Self::SandboxArchived { .. } => "sandbox_archived",
            Self::SandboxUnarchived { .. } => "sandbox_unarchived",
            Self::ArchiveDeleted { .. } => "archive_deleted",
            Self::ArchiveRestored { .. } => "archive_restored",
            Self::SandboxRestored { .. } => "sandbox_restored",
            Self::VolumeCreated { .. } => "volume_created",
            Self::PoolCreated { .. } => "pool_created",
            Self::PoolDeleted { .. } => "pool_deleted",
            Self::VolumeLimited { .. } => "volume_limited",
            Self::VolumeDeleted { .. } => "volume_deleted",
            Self::ExecStarted { .. } => "exec_started",
            Self::ExecEnded { .. } => "exec_ended",
            Self::SecretSet { .. } => "secret_set",
            Self::SecretDeleted { .. } => "secret_deleted",
            Self::SecretUsed { .. } => "secret_used",
            Self::SecretShown { .. } => "secret_shown",
            Self::EgressAllowed { .. } => "egress_allowed",
            Self::EgressDenied { .. } => "egress_denied",
            Self::ApprovalCreated { .. } => "approval_created",
            Self::ApprovalDecided { .. } => "approval_decided",
            Self::ApprovalExpired { .. } => "approval_expired",
            Self::PolicyChanged { .. } => "policy_changed",
            Self::GatewayStarted => "gateway_started",
            Self::GatewayDied { .. } => "gateway_died",
            Self::Unknown => "unknown",
        }
    }
}

/// Records of the log, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AuditPage {
    /// The records.
    pub records: Vec<AuditRecord>,
    /// The number to go on behind, in `after`; none where there is no more now. There may be more
    /// although this page is empty: a page looks through a limited part of the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_the_same_word_everywhere() {
        let text = String::new;
        for what in [
            AuditKind::Continued { previous: text() },
            AuditKind::LetGo { through: 1 },
            AuditKind::ServerStarted { version: text(), was_in_order: true },
            AuditKind::SandboxDeleted { reason: text() },
            AuditKind::EgressAllowed { host: text(), port: 1, rule: None },
            AuditKind::PolicyChanged { part: text(), sha256: text(), by: text() },
            AuditKind::GatewayStarted,
        ] {
            assert_eq!(serde_json::to_value(&what).unwrap()["kind"], what.as_str());
        }
    }

    #[test]
    fn what_is_newer_is_read_as_something() {
        let newer =
            r#"{"seq":1,"at":"2027-01-01T00:00:00Z","what":{"kind":"news","x":1},"hash":""}"#;
        assert_eq!(serde_json::from_str::<AuditRecord>(newer).unwrap().what, AuditKind::Unknown);
    }
}
