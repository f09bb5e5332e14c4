//! What is known of one sandbox, and what it may do now.

use super::addresses::EXPLAIN;
use super::approvals::{Approvals, Question, Standing, Wish, wait};
use super::bindings::Bindings;
use super::counts::Used;
use super::denials::Denials;
use super::outbox::Outbox;
use super::refusal::{Refused, Wanted};
use super::uses::{Event, Uses};
use crate::control::{Asked, Counts, Decision, Denial, Rules, Told};
use crate::dial::Route;
use crate::dns::{Names, Standing as NameStanding};
use crate::host::Host;
use crate::name::Name;
use crate::policy::{Action, Connection, Policy, Verdict};
use crate::relay::{Meter, Pipes};
use crate::stand_in::{Kept, KeptError, StandIns};
use crate::tls::{Authority, Upstream};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;

/// Most connections of a sandbox at once.
pub(super) const CONNECTIONS_MAX: usize = 1024;

/// Seconds for which an address of a name may be kept: it never changes.
const NAME_SECONDS: u32 = 60;

/// Seconds for which the address that explains may be kept: the name may be allowed soon.
const EXPLAIN_SECONDS: u32 = 1;

/// What all sandboxes have in common.
pub(super) struct Outside {
    pub(super) route: Route,
    pub(super) pipes: Pipes,
    pub(super) outbox: Outbox,
    /// One of them has used something.
    pub(super) used: Notify,
    /// Whom hosts are verified by.
    pub(super) tls: Arc<Upstream>,
}

/// What a sandbox may do.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) rules: Rules,
    pub(super) policy: Policy,
    pub(super) bindings: Bindings,
}

/// One sandbox.
pub(super) struct Sandbox {
    id: u64,
    pub(super) outside: Arc<Outside>,
    authority: Option<Arc<Authority>>,
    settings: watch::Sender<Arc<Settings>>,
    stand_ins: Mutex<StandIns>,
    approvals: Mutex<Approvals>,
    denials: Mutex<Denials>,
    used: Mutex<Used>,
    secrets: Mutex<Uses>,
    /// The last word about it is said.
    has_ended: AtomicBool,
    pub(super) connections: Arc<Semaphore>,
}

impl Settings {
    /// What is to be done with a connection: where a secret may go along, what is in it has to be
    /// seen.
    pub(super) fn connection(&self, host: &Host, port: u16) -> Connection {
        match self.policy.connection(host.as_policy(), port) {
            Connection::Look { opens_tls } => {
                Connection::Look { opens_tls: opens_tls || self.bindings.has(host, port) }
            }
            other => other,
        }
    }

    /// Nothing may be reached where the rules are not understood; and why they are not.
    pub(super) fn new(rules: Rules) -> (Self, Option<String>) {
        let policy = rules
            .policy()
            .map_err(|(text, error)| format!("the rule {text:?} is not understood: {error}"));
        let bindings = Bindings::new(&rules.secrets);
        match policy.and_then(|policy| Ok((policy, bindings?))) {
            Ok((policy, bindings)) => (Self { rules, policy, bindings }, None),
            Err(failed) => {
                let rules = Rules { layers: Vec::new(), secrets: Vec::new(), ..rules };
                let (policy, bindings) = (Policy::new(Vec::new()), Bindings::default());
                (Self { rules, policy, bindings }, Some(failed))
            }
        }
    }
}

impl Sandbox {
    /// A sandbox that is about to be served.
    ///
    /// # Errors
    ///
    /// Its table of names is none.
    pub(super) fn new(
        id: u64,
        settings: Settings,
        stand_ins: Kept,
        counts: Counts,
        authority: Option<Authority>,
        outside: Arc<Outside>,
    ) -> Result<Self, KeptError> {
        Ok(Self {
            id,
            outside,
            authority: authority.map(Arc::new),
            settings: watch::Sender::new(Arc::new(settings)),
            stand_ins: Mutex::new(StandIns::restore(stand_ins)?),
            approvals: Mutex::default(),
            denials: Mutex::default(),
            used: Mutex::new(Used::from(counts)),
            secrets: Mutex::default(),
            has_ended: AtomicBool::new(false),
            connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        })
    }

    /// What it may do now.
    pub(super) fn settings(&self) -> Arc<Settings> {
        self.settings.borrow().clone()
    }

    /// Waits until `is_still` says no of what it may do.
    pub(super) async fn until_not(&self, is_still: impl Fn(&Settings) -> bool) {
        let mut changes = self.settings.subscribe();
        if changes.wait_for(|settings| !is_still(settings)).await.is_err() {
            // Nothing changes any more.
            std::future::pending().await
        }
    }

    /// What it trusts beside what its image does, if TLS is opened for it.
    pub(super) fn authority(&self) -> Option<Arc<Authority>> {
        self.authority.clone()
    }

    /// Has it do other things from now on.
    pub(super) fn change(&self, settings: Settings) {
        self.settings.send_replace(Arc::new(settings));
    }

    /// Takes an answer to a question.
    pub(super) fn decide(&self, question: u64, decision: Decision) {
        let next = locked(&self.approvals).decide(question, decision, Instant::now());
        self.tell_question(next);
    }

    fn tell_question(&self, question: Option<Question>) {
        if let Some((question, asked)) = question {
            self.tell(Told::Question { sandbox: self.id, question, asked });
        }
    }

    /// What it has used.
    pub(super) fn counts(&self) -> Counts {
        locked(&self.used).counts()
    }

    /// Tells that a secret went to a host, or came from there.
    pub(super) fn tell_secret(&self, event: Event, secret: String, host: &str, port: u16) {
        let first = locked(&self.secrets).count(self.id, event, (secret, host, port));
        match first {
            Some(told) => self.tell(told),
            None => self.outside.used.notify_one(),
        }
    }

    fn tell_secrets(&self) {
        for told in locked(&self.secrets).news(self.id) {
            self.tell(told);
        }
    }

    /// Tells what it has used, if that is news.
    pub(super) fn tell_counts(&self) {
        self.tell_secrets();
        if let Some(counts) = locked(&self.used).news() {
            self.tell(Told::Counted { sandbox: self.id, counts, is_answer: false });
        }
    }

    /// All that it has used, after which nothing is told of it and no more is moved: its
    /// connections are broken off, which takes a moment.
    pub(super) fn end(&self) -> Counts {
        self.tell_secrets();
        self.has_ended.store(true, Ordering::Relaxed);
        self.counts()
    }

    /// Counts something, which is told later.
    fn uses<T>(&self, count: impl FnOnce(&mut Used) -> T) -> T {
        let counted = count(&mut locked(&self.used));
        self.outside.used.notify_one();
        counted
    }

    /// The host that an address means.
    pub(super) fn host(&self, address: IpAddr) -> Host {
        let name = match address {
            IpAddr::V4(address) => locked(&self.stand_ins).name(address).cloned(),
            IpAddr::V6(_) => None,
        };
        name.map_or(Host::Address(address), Host::Name)
    }

    /// Tells of a refusal.
    pub(super) fn deny(&self, refused: &Refused, wanted: &Wanted<'_>) {
        self.uses(Used::denial);
        let denial = refused.denial(wanted, &self.settings().rules);
        self.tell_denial(denial);
    }

    fn tell_denial(&self, denial: Denial) {
        if let Some(denial) = locked(&self.denials).count(denial, Instant::now()) {
            self.tell(Told::Denied { sandbox: self.id, denial });
        }
    }

    /// Tells something about itself.
    pub(super) fn tell(&self, told: Told) {
        if !self.has_ended.load(Ordering::Relaxed) {
            self.outside.outbox.tell(told);
        }
    }

    /// Its number.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Waits for what a verdict needs, at most as long as `patience`.
    ///
    /// # Errors
    ///
    /// It is refused, or nobody approved it so far.
    pub(super) async fn permit(
        &self,
        verdict: &Verdict,
        wanted: &Wanted<'_>,
        patience: Duration,
    ) -> Result<(), Refused> {
        match (verdict.action, verdict.refusal) {
            (Action::Allow, _) => Ok(()),
            (Action::Ask, Some(refusal)) => {
                let (layer, place) = refusal.rule.unwrap_or_default();
                let rule =
                    self.settings().rules.text((layer, place)).unwrap_or_default().to_owned();
                let denial =
                    Refused::by_policy(refusal, wanted.host).denial(wanted, &self.settings().rules);
                let Denial { host, port, protocol, method, path, .. } = denial;
                let asked = Asked { host, port, protocol, method, path, rule, layer };
                let path = wanted.path.and_then(|path| path.split(['?', '#']).next());
                let wish = Wish { asked, path: path.map(str::to_owned) };
                let standing = locked(&self.approvals).ask(wish, Instant::now());
                let with_rule = |refused: Refused| Refused { rule: refusal.rule, ..refused };
                match standing {
                    Standing::Allowed => Ok(()),
                    Standing::Refused(refused) => Err(with_rule(refused)),
                    Standing::Waits { question, answer } => {
                        self.tell_question(question);
                        wait(answer, patience).await.map_err(with_rule)
                    }
                }
            }
            (Action::Ask | Action::Deny, refusal) => {
                let refusal = refusal.unwrap_or(crate::policy::Refusal {
                    reason: crate::policy::Reason::NotAllowed,
                    rule: None,
                });
                Err(Refused::by_policy(refusal, wanted.host))
            }
        }
    }

    /// Connects to a host that was permitted.
    ///
    /// # Errors
    ///
    /// A budget is spent, or there is no connection.
    pub(super) async fn dial(&self, host: &Host, port: u16) -> Result<TcpStream, Refused> {
        let settings = self.settings();
        self.outside
            .route
            .connect(&settings.policy, host, port, settings.rules.ipv6)
            .await
            .map_err(|error| Refused::by_dial(&error, &host.to_string()))
    }

    /// Counts a request, or a connection that is no HTTP.
    ///
    /// # Errors
    ///
    /// A budget is spent.
    pub(super) fn begin(&self, host: &str, port: u16, is_request: bool) -> Result<(), Refused> {
        let budgets = self.settings().rules.budgets;
        if self.uses(|used| used.begin(host, is_request, &budgets))? {
            self.tell(Told::Reached { sandbox: self.id, host: host.to_owned(), port });
        }
        Ok(())
    }

    /// Counts bytes to and from a host. False: no more may be moved.
    pub(super) fn count(&self, host: &str, sent: u64, received: u64) -> bool {
        let budgets = self.settings.borrow().rules.budgets;
        self.uses(|used| used.bytes(host, sent, received, &budgets))
            && !self.has_ended.load(Ordering::Relaxed)
    }

    /// Counts the bytes of a connection to a host.
    pub(super) fn meter<'a>(&'a self, host: &'a str) -> impl Meter + 'a {
        OfHost { sandbox: self, host }
    }
}

struct OfHost<'a> {
    sandbox: &'a Sandbox,
    host: &'a str,
}

impl Meter for OfHost<'_> {
    fn sent(&self, bytes: u64) -> bool {
        self.sandbox.count(self.host, bytes, 0)
    }

    fn received(&self, bytes: u64) -> bool {
        self.sandbox.count(self.host, 0, bytes)
    }
}

/// A sandbox as questions for names see it.
pub(super) struct Asking<'a>(pub(super) &'a Sandbox);

impl Names for Asking<'_> {
    fn address(&mut self, name: &Name) -> Result<NameStanding, String> {
        let Self(sandbox) = self;
        sandbox.uses(Used::question);
        let settings = sandbox.settings();
        let refused = match settings.policy.name(name) {
            Ok(()) => {
                let mut stand_ins = locked(&sandbox.stand_ins);
                let before = stand_ins.len();
                match stand_ins.address(name) {
                    Ok(address) => {
                        if stand_ins.len() > before {
                            let told = Told::Named { sandbox: sandbox.id, name: name.clone() };
                            sandbox.tell(told);
                        }
                        return Ok(NameStanding { address, seconds: NAME_SECONDS });
                    }
                    Err(full) => Refused::new(
                        "too-many-names",
                        full.to_string(),
                        "use fewer names in one sandbox",
                    ),
                }
            }
            Err(refusal) => Refused::by_policy(refusal, name.as_str()),
        };
        let wanted = Wanted {
            host: name.as_str(),
            port: 0,
            protocol: crate::control::Protocol::Dns,
            method: None,
            path: None,
        };
        sandbox.deny(&refused, &wanted);
        // A name without a dot is a slip, or somebody's idea of a local network.
        match settings.rules.explain && name.labels() > 1 {
            true => Ok(NameStanding { address: EXPLAIN, seconds: EXPLAIN_SECONDS }),
            false => {
                let advice = refused.advice(&settings.rules);
                Err(format!("{}: {}; {advice}", refused.code, refused.message))
            }
        }
    }

    fn name(&self, address: Ipv4Addr) -> Option<Name> {
        locked(&self.0.stand_ins).name(address).cloned()
    }
}

/// Nobody panics while it is held, and if somebody did, what it holds would still be whole.
fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
