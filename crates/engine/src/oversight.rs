//! What is told of sandboxes to who looks back later, and what may be known to tell it.

use crate::audit::{Audit, redact};
use crate::clock::Clock;
use crate::denials::Denials;
use atoll_api::audit::AuditKind;
use atoll_api::exec::{Ended, StartExec, User};
use atoll_api::id::{ExecId, SandboxId};
use atoll_store::secret::Secrets;
use std::fmt;
use std::sync::Arc;

/// What the engine and everything inside of sandboxes have in common for that.
pub(crate) struct Oversight {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) audit: Audit,
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) denials: Denials,
}

impl fmt::Debug for Oversight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Oversight(..)")
    }
}

/// A command line as it is recorded.
#[derive(Debug)]
pub(crate) struct Recorded {
    argv: Vec<String>,
    is_cut: bool,
    user: User,
}

impl Recorded {
    pub(crate) fn argv(&self) -> &[String] {
        &self.argv
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }
}

impl Oversight {
    pub(crate) fn new(clock: Arc<dyn Clock>, audit: Audit, secrets: Secrets) -> Self {
        Self { clock, audit, secrets: Arc::new(secrets), denials: Denials::default() }
    }

    /// Has something recorded that happened now.
    pub(crate) fn tell(&self, sandbox: Option<SandboxId>, what: AuditKind) {
        self.audit.tell(self.clock.now(), sandbox, what);
    }

    /// Has it recorded that a sandbox is no more.
    pub(crate) fn deleted(&self, sandbox: SandboxId, reason: String) {
        self.tell(Some(sandbox), AuditKind::SandboxDeleted { reason });
        self.audit.gone(sandbox);
        self.denials.gone(sandbox);
    }

    /// What will be recorded of a command: its words, without secrets.
    pub(crate) fn command_line(&self, request: &StartExec) -> Recorded {
        let shell = request.shell.as_deref().unwrap_or_default();
        let words: Vec<&[u8]> = match &request.command {
            Some(words) => words.iter().map(|word| word.as_bytes()).collect(),
            None => vec![b"sh", b"-c", shell.as_bytes()],
        };
        // A look at one small file, which is read again only if it has changed.
        let secrets = self.secrets.all();
        let secrets = secrets.as_ref().ok().map(|all| all.as_slice());
        let (argv, is_cut) = redact::argv(&words, secrets);
        Recorded { argv, is_cut, user: request.user }
    }

    /// Has it recorded that a command was started.
    pub(crate) fn exec_started(&self, sandbox: SandboxId, exec_id: ExecId, line: Recorded) {
        let Recorded { argv, is_cut, user } = line;
        let what = AuditKind::ExecStarted { exec_id, argv, is_cut, user };
        self.audit.exec_started(self.clock.now(), sandbox, exec_id, what);
    }

    /// Has it recorded that a command ended.
    pub(crate) fn exec_ended(&self, sandbox: SandboxId, exec_id: ExecId, ended: &Ended) {
        let Ended { exit_code, signal, cause, .. } = *ended;
        let what = AuditKind::ExecEnded { exec_id, exit_code, signal, cause };
        self.audit.exec_ended(self.clock.now(), sandbox, exec_id, what);
    }
}
