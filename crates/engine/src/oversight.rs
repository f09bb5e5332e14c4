//! What is told of sandboxes to who looks back later, and what may be known to tell it.

use crate::audit::{Audit, redact};
use crate::clock::Clock;
use crate::denials::Denials;
use atoll_api::audit::AuditKind;
use atoll_api::denial::Denial;
use atoll_api::exec::{Ended, StartExec, User};
use atoll_api::id::{ExecId, SandboxId};
use atoll_store::secret::{Secret, SecretError, Secrets};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Who has changed secrets without the server.
const OTHER: &str = "another program";

/// What the engine and everything inside of sandboxes have in common for that.
pub(crate) struct Oversight {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) audit: Audit,
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) denials: Denials,
    /// The secrets as they were last recorded: names, and when each was set.
    recorded: Mutex<Option<Vec<Set>>>,
}

/// A secret, and when it was set.
type Set = (String, i64);

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
        Self {
            clock,
            audit,
            secrets: Arc::new(secrets),
            denials: Denials::default(),
            recorded: Mutex::default(),
        }
    }

    /// Has something recorded that happened now.
    pub(crate) fn tell(&self, sandbox: Option<SandboxId>, what: AuditKind) {
        self.audit.tell(self.clock.now(), sandbox, what);
    }

    /// Has it recorded that a sandbox was refused something.
    pub(crate) fn refused(&self, sandbox: SandboxId, denial: &Denial) {
        let Denial { code, host, port, method, path, rule, count, .. } = denial.clone();
        let what = AuditKind::EgressDenied { code, host, port, method, path, rule, count };
        self.audit.tell(denial.at, Some(sandbox), what);
    }

    /// Has it recorded that a sandbox is no more.
    pub(crate) fn deleted(&self, sandbox: SandboxId, reason: String) {
        self.tell(Some(sandbox), AuditKind::SandboxDeleted { reason });
        self.audit.gone(sandbox);
        self.denials.gone(sandbox);
    }

    /// All secrets. What another program has set or deleted is recorded first.
    pub(crate) fn secrets_now(&self) -> Result<Arc<Vec<Secret>>, SecretError> {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let all = self.secrets.all()?;
        self.record_others(&mut recorded, &all);
        Ok(all)
    }

    /// Changes secrets as `by`, and has that recorded as `what` says of the outcome.
    pub(crate) fn change_secrets<T>(
        &self,
        change: impl FnOnce(&Secrets) -> Result<T, SecretError>,
        what: impl FnOnce(&T) -> AuditKind,
    ) -> Result<T, SecretError> {
        // Held meanwhile, so that nobody takes it for a change of another program's.
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        // What cannot be read cannot be changed either.
        self.record_others(&mut recorded, &self.secrets.all()?);
        let changed = change(&self.secrets)?;
        self.tell(None, what(&changed));
        *recorded = Some(sets(&self.secrets.all()?));
        Ok(changed)
    }

    fn record_others(&self, recorded: &mut Option<Vec<Set>>, all: &[Secret]) {
        let now = sets(all);
        let Some(before) = recorded.as_mut().filter(|before| **before != now) else {
            recorded.get_or_insert(now);
            return;
        };
        let by = || OTHER.to_owned();
        for (name, _) in now.iter().filter(|set| !before.contains(set)) {
            let is_new = !before.iter().any(|(other, _)| other == name);
            if let Ok(name) = name.parse() {
                self.tell(None, AuditKind::SecretSet { name, is_new, by: by() });
            }
        }
        for (name, _) in before.iter().filter(|(name, _)| !now.iter().any(|(new, _)| new == name)) {
            if let Ok(name) = name.parse() {
                self.tell(None, AuditKind::SecretDeleted { name, by: by() });
            }
        }
        *before = now;
    }

    /// What will be recorded of a command: its words, without secrets.
    pub(crate) fn command_line(&self, request: &StartExec) -> Recorded {
        let shell = request.shell.as_deref().unwrap_or_default();
        let words: Vec<&[u8]> = match &request.command {
            Some(words) => words.iter().map(|word| word.as_bytes()).collect(),
            None => vec![b"sh", b"-c", shell.as_bytes()],
        };
        // A look at one small file, which is read again only if it has changed.
        let secrets = self.secrets_now();
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

fn sets(all: &[Secret]) -> Vec<Set> {
    all.iter().map(|secret| (secret.name.to_string(), secret.updated_us)).collect()
}
