use super::book::*;
use super::*;
use atoll_api::approval::{APPROVALS_PENDING_MAX, APPROVALS_PENDING_OF_SANDBOX_MAX, ApprovalWhat};
use atoll_api::time::Timestamp;
use proptest::prelude::*;
use std::time::Duration;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn sandbox(n: u8) -> SandboxId {
    SandboxId::from_random([n; ID_BYTES])
}

fn question(n: u8, rule: &str, name: &str) -> Question {
    let what =
        ApprovalWhat::Network { host: name.to_owned(), port: None, method: None, path: None };
    Question {
        sandbox: Some(sandbox(n)),
        asked_by: None,
        what,
        rule: rule.to_owned(),
        name: name.to_owned(),
    }
}

fn at(seconds: u64) -> Timestamp {
    NOW.after(Duration::from_secs(seconds))
}

/// A book that gives ids itself and remembers what it was told to write.
#[derive(Default)]
struct Case {
    book: Book,
    written: std::collections::BTreeMap<ApprovalId, (u64, Approval)>,
    ids: u64,
}

impl Case {
    fn ask(&mut self, question: Question, now: Timestamp) -> Result<Asked, AskRefusal> {
        self.ids += 1;
        let mut bytes = [0; ID_BYTES];
        bytes[..8].copy_from_slice(&self.ids.to_be_bytes());
        let (asked, changes) = self.book.ask(question, ApprovalId::from_random(bytes), now)?;
        self.write(changes);
        Ok(asked)
    }

    #[track_caller]
    fn status(&mut self, question: Question, now: Timestamp) -> Status {
        self.ask(question, now).unwrap().status
    }

    fn decide(&mut self, id: ApprovalId, verdict: Verdict, waits: bool, now: Timestamp) {
        let (number, approval) = self.book.decided(id, &verdict, "uid:0", waits, now).unwrap();
        self.write(vec![Change::Keep(number, Box::new(approval.clone()))]);
        self.book.put(number, approval);
    }

    fn approve(&mut self, id: ApprovalId, scope: GrantScope, now: Timestamp) {
        self.decide(id, Verdict::Approve(scope, None), false, now);
    }

    fn write(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Keep(number, approval) => {
                    self.written.insert(approval.id, (number, *approval));
                }
                Change::Forget(id) => assert!(self.written.remove(&id).is_some()),
            }
        }
    }

    fn restart(&mut self, now: Timestamp) {
        let (book, changes) = Book::read(self.written.values().cloned().collect(), now);
        self.book = book;
        self.write(changes);
    }
}

#[test]
fn the_same_question_is_one_approval() {
    let mut case = Case::default();
    let first = case.ask(question(1, "*", "a"), NOW).unwrap();
    assert_eq!(first.status, Status::Pending);
    for _ in 0..5 {
        assert_eq!(case.ask(question(1, "*", "a"), at(1)).unwrap(), first);
    }
    let (_, approval) = case.book.get(first.id).unwrap();
    assert_eq!((approval.count, approval.last_asked_at), (6, at(1)));
    for other in [question(2, "*", "a"), question(1, "a*", "a"), question(1, "*", "b")] {
        assert_ne!(case.ask(other, NOW).unwrap().id, first.id);
    }
}

#[test]
fn a_decision_reaches_as_far_as_its_scope() {
    let mut case = Case::default();
    let granted = |scope| Status::Approved(scope);
    // Once: nobody waited, so the next question uses it, and the one after asks anew.
    let id = case.ask(question(1, "*", "once"), NOW).unwrap().id;
    case.approve(id, GrantScope::Once, NOW);
    assert_eq!(case.status(question(2, "*", "once"), NOW), Status::Pending);
    assert_eq!(case.status(question(1, "*", "once"), NOW), granted(GrantScope::Once));
    assert_eq!(case.status(question(1, "*", "once"), NOW), Status::Pending);
    // Once, and somebody waited: it is used up.
    let id = case.ask(question(1, "*", "held"), NOW).unwrap().id;
    case.decide(id, Verdict::Approve(GrantScope::Once, None), true, NOW);
    assert_eq!(case.status(question(1, "*", "held"), NOW), Status::Pending);
    // Once, and too late.
    let id = case.ask(question(1, "*", "late"), NOW).unwrap().id;
    case.approve(id, GrantScope::Once, NOW);
    assert_eq!(case.status(question(1, "*", "late"), NOW.after(ONCE_FOR)), Status::Pending);
    // The sandbox.
    let id = case.ask(question(1, "*", "own"), NOW).unwrap().id;
    case.approve(id, GrantScope::Sandbox, NOW);
    for now in [NOW, at(1_000_000)] {
        assert_eq!(case.status(question(1, "*", "own"), now), granted(GrantScope::Sandbox));
    }
    assert_eq!(case.status(question(2, "*", "own"), NOW), Status::Pending);
    assert_eq!(case.status(question(1, "other", "own"), NOW), Status::Pending);
    // Always, until it ends.
    let id = case.ask(question(1, "*", "all"), NOW).unwrap().id;
    let verdict = Verdict::Approve(GrantScope::Always, Some(Duration::from_secs(60)));
    case.decide(id, verdict, false, NOW);
    for n in [1, 2, 3] {
        assert_eq!(case.status(question(n, "*", "all"), at(59)), granted(GrantScope::Always));
    }
    assert_eq!(case.status(question(3, "*", "all"), at(60)), Status::Pending);
    // Denied, for a while.
    let id = case.ask(question(1, "*", "no"), NOW).unwrap().id;
    case.decide(id, Verdict::Deny(Some("never".to_owned())), false, NOW);
    let denied = Status::Denied(Some("never".to_owned()));
    assert_eq!(case.status(question(1, "*", "no"), at(1)), denied);
    assert_eq!(case.status(question(2, "*", "no"), at(1)), Status::Pending);
    assert_eq!(case.status(question(1, "*", "no"), NOW.after(DENIED_FOR)), Status::Pending);
}

#[test]
fn what_is_decided_is_decided_once_and_can_be_taken_back() {
    let mut case = Case::default();
    let id = case.ask(question(1, "*", "a"), NOW).unwrap().id;
    case.approve(id, GrantScope::Always, NOW);
    let approve = Verdict::Approve(GrantScope::Once, None);
    let again = case.book.decided(id, &approve, "uid:0", false, NOW).unwrap_err();
    assert_eq!(again, DecideRefusal::NotPending { id, status: ApprovalStatus::Approved });
    case.decide(id, Verdict::Deny(None), false, at(1));
    assert_eq!(case.book.grant(Some(sandbox(2)), ("*", "a"), None, at(1)), None);
    for verdict in [approve.clone(), Verdict::Deny(None)] {
        let again = case.book.decided(id, &verdict, "uid:0", false, at(2)).unwrap_err();
        assert_eq!(again, DecideRefusal::NotPending { id, status: ApprovalStatus::Denied });
    }
    // One whose time is over cannot be approved, also before anybody noticed.
    let id = case.ask(question(1, "*", "late"), NOW).unwrap().id;
    let late = case.book.decided(id, &approve, "uid:0", false, NOW.after(PENDING_FOR)).unwrap_err();
    assert_eq!(late, DecideRefusal::NotPending { id, status: ApprovalStatus::Expired });
    let unknown = ApprovalId::from_random([9; ID_BYTES]);
    let missing = case.book.decided(unknown, &approve, "uid:0", false, NOW).unwrap_err();
    assert_eq!(missing, DecideRefusal::NotFound { id: unknown });
}

#[test]
fn nobody_fills_the_book() {
    let mut case = Case::default();
    let of_one = APPROVALS_PENDING_OF_SANDBOX_MAX;
    let sandboxes = u8::try_from(APPROVALS_PENDING_MAX / of_one).unwrap();
    for n in 0..sandboxes {
        for name in 0..of_one {
            case.ask(question(n, "*", &name.to_string()), NOW).unwrap();
        }
        let refused = case.ask(question(n, "*", "more"), NOW).unwrap_err();
        assert_eq!(refused, AskRefusal::TooManyOfSandbox);
    }
    assert_eq!(case.ask(question(99, "*", "more"), NOW), Err(AskRefusal::TooMany));
    let long = "x".repeat(WORDS_BYTES_MAX + 1);
    assert_eq!(case.ask(question(99, &long, "a"), NOW), Err(AskRefusal::TooLong));
    // What was asked before is answered still.
    assert_eq!(case.status(question(0, "*", "0"), NOW), Status::Pending);
    assert_eq!(case.book.next_due(), Some(NOW.after(PENDING_FOR)));
    let ended = case.book.expire(NOW.after(PENDING_FOR));
    assert_eq!(ended.len(), APPROVALS_PENDING_MAX);
    case.ask(question(99, "*", "more"), at(601)).unwrap();
    // History has its bound too.
    for round in 0..30 {
        let now = at(10_000 + round * 10_000);
        for name in 0..of_one {
            case.ask(question(7, "*", &format!("{round}-{name}")), now).unwrap();
        }
        case.book.expire(now.after(PENDING_FOR));
        let forgotten = case.book.forget_some(now.after(PENDING_FOR));
        case.write(forgotten);
    }
    assert!(case.book.behind(0).count() <= HISTORY_MAX + of_one + 1);
    assert_eq!(case.written.len(), case.book.behind(0).count());
}

#[test]
fn grants_survive_a_restart_and_waiting_does_not() {
    let mut case = Case::default();
    let mut ids = Vec::new();
    for (name, scope) in
        [("once", GrantScope::Once), ("own", GrantScope::Sandbox), ("all", GrantScope::Always)]
    {
        let id = case.ask(question(1, "*", name), NOW).unwrap().id;
        case.approve(id, scope, NOW);
        ids.push(id);
    }
    let pending = case.ask(question(1, "*", "open"), NOW).unwrap().id;
    case.restart(at(1));
    assert_eq!(case.book.get(pending).unwrap().1.status, ApprovalStatus::Expired);
    assert_eq!(case.status(question(2, "*", "all"), at(1)), Status::Approved(GrantScope::Always));
    assert_eq!(case.status(question(1, "*", "own"), at(1)), Status::Approved(GrantScope::Sandbox));
    assert_eq!(case.status(question(1, "*", "once"), at(1)), Status::Approved(GrantScope::Once));
    // It was used, and stays so.
    case.restart(at(2));
    assert_eq!(case.status(question(1, "*", "once"), at(2)), Status::Pending);
    let ended = case.book.gone(sandbox(1), at(3));
    let ended: Vec<&str> = ended.iter().map(|(_, one)| one.name.as_str()).collect();
    assert_eq!(ended, ["own", "once"], "what is for all sandboxes stays");
    assert_eq!(case.status(question(1, "*", "own"), at(3)), Status::Pending);
    assert_eq!(case.status(question(1, "*", "all"), at(3)), Status::Approved(GrantScope::Always));
}

#[derive(Debug, Clone)]
enum Act {
    Ask(u8, u8),
    Approve(usize, u8),
    Deny(usize),
    Pass(u16),
    Gone(u8),
    Restart,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..3u8, 0..3u8).prop_map(|(sandbox, name)| Act::Ask(sandbox, name)),
        2 => (any::<usize>(), 0..3u8).prop_map(|(which, scope)| Act::Approve(which, scope)),
        1 => any::<usize>().prop_map(Act::Deny),
        1 => any::<u16>().prop_map(Act::Pass),
        1 => (0..3u8).prop_map(Act::Gone),
        1 => Just(Act::Restart),
    ]
}

proptest! {
    /// Nothing is let through that nobody approved for it, in whatever order things happen.
    #[test]
    fn nothing_is_approved_by_itself(acts in prop::collection::vec(act(), 1..60)) {
        let mut case = Case::default();
        let mut now = NOW;
        let mut ids: Vec<ApprovalId> = Vec::new();
        // What was approved, by whom it was asked and how often it may happen.
        let mut allowed: Vec<(u8, u8, GrantScope, ApprovalId)> = Vec::new();
        let mut owners = HashMap::new();
        for act in acts {
            match act {
                Act::Ask(sandbox, name) => {
                    let asked = case.ask(question(sandbox, "*", &name.to_string()), now).unwrap();
                    if let Status::Approved(scope) = asked.status {
                        let by = allowed.iter().position(|(own, about, granted, id)| {
                            *id == asked.id && *about == name && *granted == scope
                                && (*own == sandbox || scope == GrantScope::Always)
                        });
                        prop_assert!(by.is_some(), "{asked:?} of {sandbox} about {name}");
                        if scope == GrantScope::Once {
                            allowed.swap_remove(by.unwrap());
                        }
                    }
                    owners.insert(asked.id, (sandbox, name));
                    ids.push(asked.id);
                }
                Act::Approve(which, scope) if !ids.is_empty() => {
                    let id = ids[which % ids.len()];
                    let scope = [GrantScope::Once, GrantScope::Sandbox, GrantScope::Always][usize::from(scope)];
                    let verdict = Verdict::Approve(scope, None);
                    if let Ok((number, approval)) = case.book.decided(id, &verdict, "", false, now) {
                        case.write(vec![Change::Keep(number, Box::new(approval.clone()))]);
                        let own = approval.sandbox_id.unwrap().to_string();
                        let own = u8::from_str_radix(&own[4..6], 16).unwrap();
                        allowed.push((own, approval.name.parse().unwrap(), scope, id));
                        case.book.put(number, approval);
                    }
                }
                Act::Deny(which) if !ids.is_empty() => {
                    let id = ids[which % ids.len()];
                    if let Ok((number, approval)) =
                        case.book.decided(id, &Verdict::Deny(None), "", false, now)
                    {
                        case.write(vec![Change::Keep(number, Box::new(approval.clone()))]);
                        case.book.put(number, approval);
                        allowed.retain(|(_, _, _, other)| *other != id);
                    }
                }
                Act::Approve(..) | Act::Deny(_) => {}
                Act::Pass(seconds) => {
                    now = now.after(Duration::from_secs(seconds.into()));
                    for (number, one) in case.book.expire(now) {
                        case.write(vec![Change::Keep(number, Box::new(one))]);
                    }
                }
                Act::Gone(own) => {
                    for (number, one) in case.book.gone(sandbox(own), now) {
                        case.write(vec![Change::Keep(number, Box::new(one))]);
                    }
                    allowed.retain(|(other, _, scope, _)| *other != own || *scope == GrantScope::Always);
                }
                Act::Restart => case.restart(now),
            }
        }
    }
}

/// What is applied is bound to what it is: to one session, one digest, and one time.
#[test]
fn an_apply_is_nobodys_and_is_approved_once() {
    let mut case = Case::default();
    let ask = |digest: &str| {
        let session = "ses_0123456789abcdef".to_owned();
        Question {
            sandbox: None,
            asked_by: Some("uid:7".to_owned()),
            name: format!("{session} {digest}"),
            rule: "workspace.apply".to_owned(),
            what: ApprovalWhat::Apply(Box::new(atoll_api::approval::Applying {
                session,
                project: "/p".to_owned(),
                digest: digest.to_owned(),
                paths: Vec::new(),
                added: 1,
                modified: 0,
                deleted: 0,
                risky: 0,
                risks: Vec::new(),
                said_in: "x".to_owned(),
            })),
        }
    };
    let asked = case.ask(ask("one"), at(0)).unwrap();
    assert_eq!(case.ask(ask("one"), at(1)).unwrap(), asked);
    let kept = case.book.get(asked.id).unwrap().1;
    assert_eq!((kept.sandbox_id, kept.asked_by.as_deref()), (None, Some("uid:7")));
    for scope in [GrantScope::Sandbox, GrantScope::Always] {
        let verdict = Verdict::Approve(scope, None);
        let refused = case.book.decided(asked.id, &verdict, "uid:0", false, at(1));
        assert_eq!(refused.unwrap_err(), DecideRefusal::OnlyOnce);
    }
    case.approve(asked.id, GrantScope::Once, at(2));
    // Something else is asked for by now.
    assert_eq!(case.status(ask("other"), at(3)), Status::Pending);
    assert_eq!(case.status(ask("one"), at(3)), Status::Approved(GrantScope::Once));
    assert_eq!(case.status(ask("one"), at(3)), Status::Pending);
    // The end of a sandbox ends nothing of it.
    assert_eq!(case.book.gone(sandbox(1), at(4)), []);
}

/// What is approved once is what was shown: another request of the same rule and name is pending by
/// itself, until a decision is about all of them.
#[test]
fn once_is_for_what_was_shown() {
    let mut case = Case::default();
    let ask = |path: &str| Question {
        what: ApprovalWhat::Network {
            host: "a".to_owned(),
            port: Some(443),
            method: Some("GET".to_owned()),
            path: Some(path.to_owned()),
        },
        ..question(1, "*", "a:443")
    };
    let one = case.ask(ask("/one"), at(0)).unwrap();
    let two = case.ask(ask("/two"), at(0)).unwrap();
    assert_ne!(one.id, two.id);
    assert_eq!(case.ask(ask("/one"), at(1)).unwrap(), one);
    case.approve(one.id, GrantScope::Once, at(2));
    let decided = |case: &Case| case.book.get(one.id).unwrap().1.clone();
    assert_eq!(case.book.others(&decided(&case), at(2)), []);
    assert_eq!(case.ask(ask("/two"), at(2)).unwrap(), two);
    assert_eq!(case.status(ask("/one"), at(2)), Status::Approved(GrantScope::Once));
    let again = case.ask(ask("/one"), at(2)).unwrap();
    assert_eq!(again.status, Status::Pending);
    case.approve(again.id, GrantScope::Sandbox, at(3));
    let decided = case.book.get(again.id).unwrap().1.clone();
    assert_eq!(case.book.others(&decided, at(3)), [two.id]);
    assert_eq!(case.status(ask("/three"), at(3)), Status::Approved(GrantScope::Sandbox));
}
