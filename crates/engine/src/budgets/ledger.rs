//! What was drawn on budgets that sandboxes have together: pure.

use atoll_api::budget::{Budget, BudgetPeriod, Overdrawn, SharedBudget};
use atoll_api::time::Timestamp;
use atoll_api::usage::Used;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// A budget, as the operator of a server says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What it is called, and by which what was drawn on it is found again.
    pub name: String,
    /// It is of the sandboxes that have all of these labels.
    pub labels: BTreeMap<String, String>,
    /// For how long, each time; for ever if nothing is said.
    pub period: Option<BudgetPeriod>,
    /// How much there is.
    pub budget: Budget,
}

impl Rule {
    fn is_of(&self, labels: &BTreeMap<String, String>) -> bool {
        self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
    }

    /// When the period began that `now` is in.
    fn begun(&self, now: Timestamp) -> Timestamp {
        self.period.map_or(Timestamp::UNIX_EPOCH, |period| period.around(now).0)
    }
}

/// What was drawn on a budget, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawn {
    /// Of which.
    pub name: String,
    /// When the period began.
    pub from: Timestamp,
    /// How much since then.
    pub used: Used,
}

/// A budget that is used up: what is stopped for it, and does not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spent {
    /// Its name; none if it is the sandbox's own.
    pub name: Option<String>,
    /// What of it.
    pub overdrawn: Overdrawn,
    /// How long it takes until there is a new one.
    pub renews_in: Option<Duration>,
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "the budget {name} is used up: {}", self.overdrawn),
            None => write!(f, "its budget is used up: {}", self.overdrawn),
        }
    }
}

/// All budgets that sandboxes have together.
#[derive(Debug, Default)]
pub struct Ledger {
    accounts: Vec<Account>,
}

#[derive(Debug)]
struct Account {
    rule: Rule,
    from: Timestamp,
    used: Used,
    is_written: bool,
}

impl Account {
    /// What was used in the period that `now` is in.
    fn used(&self, now: Timestamp) -> Used {
        // Of one that is over nothing counts.
        if self.rule.begun(now) > self.from { Used::default() } else { self.used }
    }

    fn overdrawn(&self, now: Timestamp) -> Option<Overdrawn> {
        self.rule.budget.overdrawn(&self.used(now))
    }

    fn renews_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.rule.period.map(|period| period.around(now).1)
    }
}

impl Ledger {
    /// Goes on from what is kept. What was drawn on a budget that is not there any more is
    /// forgotten.
    pub fn new(rules: Vec<Rule>, kept: &[Drawn]) -> Self {
        let account = |rule: Rule| {
            let drawn = kept.iter().find(|drawn| drawn.name == rule.name);
            let (from, used) = drawn
                .map_or((Timestamp::UNIX_EPOCH, Used::default()), |drawn| (drawn.from, drawn.used));
            Account { rule, from, used, is_written: true }
        };
        Self { accounts: rules.into_iter().map(account).collect() }
    }

    /// A sandbox with these labels has used more.
    pub fn draw(&mut self, labels: &BTreeMap<String, String>, more: Used, now: Timestamp) {
        for account in self.accounts.iter_mut().filter(|account| account.rule.is_of(labels)) {
            // A clock that was set back goes on with the period that there is.
            let from = account.rule.begun(now).max(account.from);
            account.used = account.used(now).and(more);
            account.from = from;
            account.is_written = false;
        }
    }

    /// The budget that is used up, of those of a sandbox with these labels.
    pub fn spent(&self, labels: &BTreeMap<String, String>, now: Timestamp) -> Option<Spent> {
        let mut accounts = self.accounts.iter().filter(|account| account.rule.is_of(labels));
        accounts.find_map(|account| {
            let overdrawn = account.overdrawn(now)?;
            let name = Some(account.rule.name.clone());
            let renews_in = account.renews_at(now).map(|at| at.since(now));
            Some(Spent { name, overdrawn, renews_in })
        })
    }

    /// What is left of processor time for a sandbox with these labels, in microseconds.
    pub fn cpu_us_left(&self, labels: &BTreeMap<String, String>, now: Timestamp) -> Option<u64> {
        let accounts = self.accounts.iter().filter(|account| account.rule.is_of(labels));
        let left = |account: &Account| {
            let used = account.used(now).cpu_us.unwrap_or(0);
            account.rule.budget.cpu_us.map(|most| most.saturating_sub(used))
        };
        accounts.filter_map(left).min()
    }

    /// Whether a budget of a sandbox with these labels counts memory.
    pub fn counts_memory(&self, labels: &BTreeMap<String, String>) -> bool {
        let counts = |account: &Account| account.rule.budget.memory_mib_seconds.is_some();
        self.accounts.iter().any(|account| account.rule.is_of(labels) && counts(account))
    }

    /// What the API shows.
    pub fn view(&self, now: Timestamp) -> Vec<SharedBudget> {
        let view = |account: &Account| SharedBudget {
            name: account.rule.name.clone(),
            labels: account.rule.labels.clone(),
            budget: account.rule.budget,
            period: account.rule.period,
            used: account.used(now),
            overdrawn: account.overdrawn(now).map(|overdrawn| overdrawn.what.to_owned()),
            renews_at: account.renews_at(now),
        };
        self.accounts.iter().map(view).collect()
    }

    /// Takes what is to be written.
    pub fn take_unwritten(&mut self) -> Vec<Drawn> {
        let unwritten = self.accounts.iter_mut().filter(|account| !account.is_written);
        unwritten
            .map(|account| {
                account.is_written = true;
                Drawn { name: account.rule.name.clone(), from: account.from, used: account.used }
            })
            .collect()
    }

    /// It could not be written.
    pub fn give_back(&mut self, drawn: &[Drawn]) {
        for account in &mut self.accounts {
            account.is_written &= !drawn.iter().any(|drawn| drawn.name == account.rule.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn rule(
        name: &str,
        labels: &[(&str, &str)],
        period: Option<BudgetPeriod>,
        cpu_us: u64,
    ) -> Rule {
        let labels =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let budget = Budget { cpu_us: Some(cpu_us), ..Budget::default() };
        Rule { name: name.to_owned(), labels, period, budget }
    }

    fn team(name: &str) -> BTreeMap<String, String> {
        [("team".to_owned(), name.to_owned()), ("run".to_owned(), "7".to_owned())].into()
    }

    fn cpu(cpu_us: u64) -> Used {
        Used { cpu_us: Some(cpu_us), ..Used::default() }
    }

    fn noon() -> Timestamp {
        Timestamp::UNIX_EPOCH.after(DAY * 20_000 + DAY / 2)
    }

    #[test]
    fn who_has_the_labels_draws_and_is_told_when_nothing_is_left() {
        let red = rule("red", &[("team", "red")], None, 100);
        let all = rule("all", &[], None, 150);
        let mut ledger = Ledger::new(vec![red, all], &[]);
        ledger.draw(&team("red"), cpu(99), noon());
        assert_eq!(ledger.spent(&team("red"), noon()), None);
        assert_eq!(ledger.cpu_us_left(&team("red"), noon()), Some(1));
        assert_eq!(ledger.cpu_us_left(&team("blue"), noon()), Some(51));
        ledger.draw(&team("red"), cpu(1), noon());
        let spent = ledger.spent(&team("red"), noon()).unwrap();
        assert_eq!(spent.name.as_deref(), Some("red"));
        assert_eq!(spent.to_string(), "the budget red is used up: cpu_us is 100, of 100");
        assert_eq!(spent.renews_in, None);
        assert_eq!(ledger.spent(&team("blue"), noon()), None, "the other still has some");
        ledger.draw(&team("blue"), cpu(50), noon());
        assert_eq!(ledger.spent(&team("blue"), noon()).unwrap().name.as_deref(), Some("all"));
    }

    #[test]
    fn a_period_that_is_over_leaves_nothing_behind() {
        let daily = rule("daily", &[], Some(BudgetPeriod::Day), 100);
        let mut ledger = Ledger::new(vec![daily], &[]);
        ledger.draw(&team("red"), cpu(100), noon());
        let spent = ledger.spent(&team("red"), noon()).unwrap();
        let midnight = noon().after(DAY / 2);
        assert_eq!(spent.renews_in, Some(DAY / 2));
        assert_eq!(ledger.spent(&team("red"), midnight), None);
        assert_eq!(ledger.view(midnight)[0].used, Used::default());
        ledger.draw(&team("red"), cpu(7), midnight);
        assert_eq!(ledger.view(midnight)[0].used, cpu(7));
        // A clock that goes back does not give what was used already.
        ledger.draw(&team("red"), cpu(3), noon());
        assert_eq!(ledger.view(midnight)[0].used, cpu(10));
    }

    #[test]
    fn what_is_kept_goes_on_and_what_could_not_be_written_is_written_again() {
        let rules = || vec![rule("daily", &[], Some(BudgetPeriod::Day), 100)];
        let mut ledger = Ledger::new(rules(), &[]);
        assert_eq!(ledger.take_unwritten(), []);
        ledger.draw(&team("red"), cpu(60), noon());
        let drawn = ledger.take_unwritten();
        assert_eq!(ledger.take_unwritten(), []);
        ledger.give_back(&drawn);
        assert_eq!(ledger.take_unwritten(), drawn);
        let mut next = Ledger::new(rules(), &drawn);
        next.draw(&team("red"), cpu(40), noon());
        assert!(next.spent(&team("red"), noon()).is_some());
        let other = Ledger::new(vec![rule("other", &[], None, 1)], &drawn);
        assert_eq!(other.spent(&team("red"), noon()), None);
    }
}
