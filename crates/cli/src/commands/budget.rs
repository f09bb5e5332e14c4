//! `atoll budget`.

use crate::error::CliError;
use crate::remote::{self, Remote, listed, size};
use crate::status::Status;
use atoll_api::budget::{Budget, BudgetPeriod, SharedBudget};

/// Limit how much sandboxes use before they are stopped
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Set(Set),
    List(List),
}

/// Give a sandbox another budget of its own
///
/// In place of the one that it has; without an amount it has none. What it has used counts on: one
/// that has used as much already is stopped. `atoll usage` tells what that is.
///
/// Example: atoll budget set web cpu=2h sent=1GiB
#[derive(Debug, clap::Args)]
struct Set {
    /// Its id or name
    sandbox: String,
    /// cpu=TIME, memory=SIZE*TIME, sent=SIZE or received=SIZE
    #[arg(value_name = "AMOUNT", value_parser = Budget::parse_amount)]
    amounts: Vec<Budget>,
    #[command(flatten)]
    remote: Remote,
}

/// List the budgets that sandboxes have together
///
/// The operator of the server gives them, to all sandboxes with certain labels: see `atoll serve
/// --config`.
#[derive(Debug, clap::Args)]
struct List {
    #[command(flatten)]
    remote: Remote,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    match args.command {
        Command::Set(Set { sandbox, amounts, remote }) => {
            let budget = together(&amounts)?;
            let set = remote.ask(async |client| client.set_budget(&sandbox, &budget).await)?;
            remote::answer(&remote, &set, |_| String::new())
        }
        Command::List(List { remote }) => {
            let found = remote.ask(async |client| client.list_budgets().await)?;
            remote::say(&listed(
                remote.format(),
                &found.budgets,
                ["NAME", "OF", "EVERY", "USED"],
                row,
            ))?;
            Ok(Status::SUCCESS)
        }
    }
}

/// Several amounts as one budget.
pub(crate) fn together(amounts: &[Budget]) -> Result<Budget, CliError> {
    amounts.iter().try_fold(Budget::default(), |budget, amount| {
        budget.and(*amount).ok_or_else(|| CliError::new("an amount of the budget is said twice"))
    })
}

fn row(budget: &SharedBudget) -> [String; 4] {
    let labels = budget.labels.iter().map(|(key, value)| format!("{key}={value}"));
    let labels = labels.collect::<Vec<_>>().join(" ");
    let of = if labels.is_empty() { "all".to_owned() } else { labels };
    let every = match budget.period {
        Some(BudgetPeriod::Hour) => "hour",
        Some(BudgetPeriod::Day) => "day",
        Some(BudgetPeriod::Week) => "week",
        Some(BudgetPeriod::Month) => "month",
        None => "-",
    };
    let network = budget.used.network.unwrap_or_default();
    let seconds = |us: u64| format!("{}s", us / 1_000_000);
    let memory = |mib_seconds: u64| format!("{} GiB*h", mib_seconds / (1024 * 3600));
    let amounts = [
        (
            "cpu",
            budget.budget.cpu_us,
            budget.used.cpu_us.unwrap_or(0),
            &seconds as &dyn Fn(u64) -> String,
        ),
        (
            "memory",
            budget.budget.memory_mib_seconds,
            budget.used.memory_mib_seconds.unwrap_or(0),
            &memory,
        ),
        ("sent", budget.budget.bytes_sent, network.bytes_sent, &size),
        ("received", budget.budget.bytes_received, network.bytes_received, &size),
    ];
    let used = amounts.into_iter().filter_map(|(name, most, used, write)| {
        let over = if most? <= used { ", used up" } else { "" };
        Some(format!("{name} {} of {}{over}", write(used), write(most?)))
    });
    [budget.name.clone(), of, every.to_owned(), used.collect::<Vec<_>>().join("; ")]
}
