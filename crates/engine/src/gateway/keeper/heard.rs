//! What the keeper does with what the gateway tells.

use super::{Keeper, Wish};
use crate::approvals::{Approvals, AskError, Outcome, Question, Status};
use crate::gateway::GatewayError;
use crate::usage::since;
use atoll_api::approval::{ApprovalWhat, GrantScope};
use atoll_api::audit::AuditKind;
use atoll_api::denial::{Denial, DenialProtocol};
use atoll_api::id::SandboxId;
use atoll_egress::control::{self, Asked, Counts, Decision, Protocol, Told};

impl Keeper {
    pub(super) fn hear(&mut self, told: Told) {
        match told {
            Told::Ready => self.ready(),
            Told::Added { sandbox } | Told::Changed { sandbox } => self.answer(sandbox, Ok(())),
            Told::Failed { sandbox, text } => {
                self.answer(sandbox, Err(GatewayError::Refused(text)));
            }
            Told::Named { sandbox, name } => {
                if let Some(served) = self.sandboxes.get_mut(&sandbox) {
                    served.addition.stand_ins.names.push(name.clone());
                    if let Err(error) = self.kept.named(served.id, &name) {
                        tracing::warn!(sandbox = %served.id, %error, "a name cannot be kept");
                    }
                }
            }
            Told::Denied { sandbox, denial } => self.denied(sandbox, denial),
            Told::Question { sandbox, question, asked } => self.question(sandbox, question, asked),
            Told::Reached { sandbox, host, port } => {
                let what = AuditKind::EgressAllowed { host, port, rule: None };
                self.tell_first(sandbox, what);
            }
            Told::Used { sandbox, secret, host, port, .. } => {
                if let Ok(name) = secret.parse() {
                    self.tell_first(sandbox, AuditKind::SecretUsed { name, host, port });
                }
            }
            Told::Redacted { sandbox, secret, host, count, .. } => {
                if let Some(id) = self.whose(sandbox) {
                    tracing::warn!(sandbox = %id, secret, host, count, "a secret was in an answer");
                }
            }
            Told::Deaf { sandbox } => {
                if let Some(served) = self.sandboxes.get(&sandbox) {
                    tracing::warn!(sandbox = %served.id, "its network has ended within");
                }
            }
            Told::Counted { sandbox, counts, is_answer } => {
                self.counted(sandbox, counts, is_answer);
            }
            Told::Removed { sandbox, counts } => self.removed(sandbox, counts),
        }
    }

    /// What it counts is added where it is more than what was told before.
    fn counted(&mut self, number: u64, counts: Counts, is_answer: bool) {
        // It was under way when nobody wanted it served any more: the last word comes behind it.
        if let Some((id, before)) = self.left.get_mut(&number) {
            return self.meter.counted(*id, since(counts, std::mem::replace(before, counts)));
        }
        let Some(served) = self.sandboxes.get_mut(&number) else { return };
        // Another gateway goes on from there.
        let before = std::mem::replace(&mut served.addition.counts, counts);
        let more = since(counts, before);
        if more != Counts::default() {
            self.meter.counted(served.id, more);
        }
        if is_answer {
            served.is_awaited = false;
            for wait in served.counts.drain(..) {
                wait.send(()).ok();
            }
        }
    }

    /// That was the last of it.
    fn removed(&mut self, number: u64, counts: Counts) {
        if let Some((id, before)) = self.left.remove(&number) {
            self.meter.counted(id, since(counts, before));
        }
    }

    /// Which sandbox a number means, also until the last word about it.
    fn whose(&self, number: u64) -> Option<SandboxId> {
        let served = self.sandboxes.get(&number).map(|served| served.id);
        served.or_else(|| self.left.get(&number).map(|(id, _)| *id))
    }

    fn answer(&mut self, number: u64, answer: Result<(), GatewayError>) {
        if let Some(served) = self.sandboxes.get_mut(&number) {
            served.answer(answer);
        }
    }

    /// Has it recorded unless it was before, perhaps by a gateway that has ended since.
    fn tell_first(&self, number: u64, what: AuditKind) {
        if let Some(id) = self.whose(number) {
            let oversight = &self.oversight;
            oversight.audit.tell_first(oversight.clock.now(), id, what);
        }
    }

    fn denied(&self, number: u64, denial: control::Denial) {
        let Some(id) = self.whose(number) else { return };
        let control::Denial { code, host, port, protocol, method, path, rule, .. } = denial;
        let kept = Denial {
            seq: 0,
            at: self.oversight.clock.now(),
            code,
            host,
            port: (port != 0).then_some(port),
            protocol: match protocol {
                Protocol::Dns => DenialProtocol::Dns,
                Protocol::Tcp => DenialProtocol::Tcp,
                Protocol::Tls => DenialProtocol::Tls,
                Protocol::Http => DenialProtocol::Http,
            },
            method,
            path,
            rule,
            layer: None,
            message: denial.message,
            next_step: denial.next_step,
            count: denial.count,
        };
        self.oversight.refused(id, &kept);
        // One that is left may be gone, and nobody would have its denials forgotten again.
        if self.sandboxes.contains_key(&number) {
            self.oversight.denials.keep(id, kept);
        }
    }

    fn question(&self, number: u64, question: u64, asked: Asked) {
        let Some(served) = self.sandboxes.get(&number) else { return };
        let Asked { host, port, method, path, rule, .. } = asked;
        let name = format!("{host}:{port}");
        let what = ApprovalWhat::Network { host, port: Some(port), method, path };
        let asked = Question { sandbox: Some(served.id), asked_by: None, what, rule, name };
        let (approvals, wishes) = (self.approvals.clone(), self.sender.clone());
        tokio::spawn(async move {
            let decision = decided(&approvals, asked).await;
            wishes.send(Wish::Decide { number, question, decision }).ok();
        });
    }
}

/// What somebody decides, however long that takes.
async fn decided(approvals: &Approvals, question: Question) -> Decision {
    let deny = |reason| Decision::Deny { reason };
    let allow = |scope| match scope {
        GrantScope::Once => Decision::Once,
        // How long it holds is kept by who approves: it is asked again soon.
        GrantScope::Sandbox | GrantScope::Always => Decision::Allow { seconds: Some(ASKED_AGAIN) },
    };
    loop {
        let asked = match approvals.ask(question.clone()).await {
            Ok(asked) => asked,
            Err(AskError::ShuttingDown) => return Decision::Expire,
            Err(error) => return deny(Some(error.to_string())),
        };
        return match asked.status {
            Status::Approved(scope) => allow(scope),
            Status::Denied(reason) => deny(reason),
            Status::Pending => match approvals.decided(asked.id).await {
                Outcome::Approved(scope) => allow(scope),
                Outcome::Taken => continue,
                Outcome::Denied(reason) => deny(reason),
                Outcome::Expired | Outcome::ShuttingDown => Decision::Expire,
            },
        };
    }
}

/// Seconds after which an approval is looked up once more: it may have ended, or been taken back.
const ASKED_AGAIN: u64 = 30;
