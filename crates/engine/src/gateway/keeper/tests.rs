use super::super::Wish;
use super::*;
use crate::approvals::Approvals;
use crate::audit::{Audit, Filter, Limits};
use crate::budgets::Ledger;
use crate::clock::{Clock as _, ManualClock};
use crate::usage::Tally;
use atoll_api::id::ID_BYTES;
use atoll_api::time::Timestamp;
use atoll_egress::control::{Budgets, Help, Rules, Told};
use atoll_egress::stand_in::Kept as StandIns;
use atoll_store::secret::Secrets;
use std::os::fd::OwnedFd;
use tempfile::TempDir;

/// A keeper whose gateway is this test.
struct Case {
    keeper: Keeper,
    gateway: OwnedFd,
    meter: Arc<Meter>,
    oversight: Arc<Oversight>,
    _state: TempDir,
}

/// The number that the keeper gives to the first one that it has served.
const FIRST: u64 = 1;

fn id() -> SandboxId {
    SandboxId::from_random([7; ID_BYTES])
}

fn received(received_bytes: u64) -> Counts {
    Counts { received_bytes, connections: 1, ..Counts::default() }
}

fn nothing_used() -> Tally {
    Tally {
        id: id(),
        name: None,
        labels: Default::default(),
        created_at: Timestamp::UNIX_EPOCH,
        deleted_at: None,
        cpu_us: None,
        cpu_seen_us: 0,
        memory_byte_us: None,
        memory_seen: None,
        network: None,
    }
}

fn nothing_allowed() -> Rules {
    Rules {
        layers: Vec::new(),
        explain: false,
        ipv6: false,
        budgets: Budgets::default(),
        secrets: Vec::new(),
        help: Help::Run,
    }
}

impl Case {
    /// With one sandbox that is served.
    fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::default());
        let audit = Audit::open(&state.path().join("audit"), Limits::default(), clock.now());
        let secrets = Secrets::of(state.path().to_owned());
        let oversight = Arc::new(Oversight::new(clock.clone(), audit.unwrap(), secrets));
        let meter =
            Arc::new(Meter::new(vec![nothing_used()], &[], Ledger::default(), clock.clone()));
        let (approvals, _) = Approvals::new(Vec::new(), oversight.clone());
        let kept = Kept::of(state.path());
        let program =
            Program { command: Box::new(|| Command::new("false")), begin: Box::new(Vec::new) };
        let (_, mut keeper) =
            Keeper::new(program, oversight.clone(), approvals, kept, meter.clone());
        let (starter, gateway) = Starter::pair().unwrap();
        starter.set_nonblocking().unwrap();
        #[expect(
            deprecated,
            reason = "what is in its place is unsafe, and a Starter keeps its own"
        )]
        let control = AsyncFd::new(starter).unwrap();
        let child = Command::new("true").spawn().unwrap();
        keeper.process = Some(Process { control, child, is_ready: true });
        let mut case = Self { keeper, gateway, meter, oversight, _state: state };
        case.serve();
        case.keeper.hear(Told::Added { sandbox: FIRST });
        case
    }

    fn serve(&mut self) {
        let addition = Box::new(Addition {
            sandbox: 0,
            tcp: 0,
            rules: nothing_allowed(),
            stand_ins: StandIns::empty("11.0.0.0/15").unwrap(),
            counts: Counts::default(),
            authority: None,
        });
        let listeners = Listeners { tcp: Vec::new(), udp: Vec::new(), is_complete: true };
        let (reply, _) = oneshot::channel();
        self.keeper.grant(Wish::Serve { id: id(), addition, listeners, reply });
    }

    fn leave(&mut self) {
        self.keeper.grant(Wish::Leave { id: id() });
    }

    /// Says something as the gateway does.
    fn say(&self, told: &Told) {
        let bytes = serde_json::to_vec(told).unwrap();
        atoll_sys::scm::send_all(self.gateway.as_fd(), &bytes, &[]).unwrap();
    }

    fn used(&self) -> Counts {
        self.meter.counts(id())
    }

    /// How often it was recorded that something was let out.
    async fn let_out(&self) -> usize {
        self.oversight.audit.sync().await;
        let page = self.oversight.audit.read(0, 100, &Filter::default()).unwrap();
        page.records.iter().filter(|record| record.what.as_str() == "egress_allowed").count()
    }
}

fn counted(bytes: u64, is_answer: bool) -> Told {
    Told::Counted { sandbox: FIRST, counts: received(bytes), is_answer }
}

fn removed(bytes: u64) -> Told {
    Told::Removed { sandbox: FIRST, counts: received(bytes) }
}

#[tokio::test]
async fn a_count_that_was_under_way_is_not_the_last_word() {
    for is_answer in [false, true] {
        let mut case = Case::new();
        case.keeper.hear(counted(10, false));
        case.leave();
        case.keeper.hear(counted(15, is_answer));
        assert_eq!(case.used(), received(15));
        case.keeper.hear(removed(20));
        assert_eq!(case.used(), received(20));
        assert!(case.keeper.left.is_empty());
        // There is nothing behind it.
        case.keeper.hear(counted(30, is_answer));
        case.keeper.hear(removed(30));
        assert_eq!(case.used(), received(20));
    }
}

#[tokio::test]
async fn an_order_that_failed_meanwhile_loses_nothing() {
    let mut case = Case::new();
    case.leave();
    case.keeper.hear(Told::Failed { sandbox: FIRST, text: "no such rule".to_owned() });
    case.keeper.hear(removed(20));
    assert_eq!(case.used(), received(20));
}

#[tokio::test]
async fn one_that_comes_again_at_once_has_what_it_used_before_and_after() {
    let mut case = Case::new();
    case.keeper.hear(counted(10, false));
    case.leave();
    case.serve();
    let again = FIRST + 1;
    case.keeper.hear(Told::Counted { sandbox: again, counts: received(11), is_answer: false });
    case.keeper.hear(removed(20));
    assert_eq!(case.used().received_bytes, 21);
}

#[tokio::test]
async fn the_end_waits_for_the_last_word() {
    let mut case = Case::new();
    case.leave();
    case.say(&counted(15, false));
    case.say(&removed(20));
    let Case { keeper, meter, gateway: _gateway, .. } = case;
    keeper.end().await;
    assert_eq!(meter.counts(id()), received(20));
}

#[tokio::test]
async fn what_was_told_before_the_last_word_is_recorded() {
    let mut case = Case::new();
    case.leave();
    case.keeper.hear(Told::Reached { sandbox: FIRST, host: "a.test".to_owned(), port: 443 });
    assert_eq!(case.let_out().await, 1);
    case.keeper.hear(removed(20));
    case.keeper.hear(Told::Reached { sandbox: FIRST, host: "b.test".to_owned(), port: 443 });
    assert_eq!(case.let_out().await, 1);
}
