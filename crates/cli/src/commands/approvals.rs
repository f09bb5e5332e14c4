//! `atoll approvals`.

use crate::error::CliError;
use crate::remote::{self, Format, Reader, Remote, lines, listed, neutral, say};
use crate::status::Status;
use atoll_api::approval::{
    Applying, Approval, ApprovalStatus, ApprovalWhat, Approve, Deny, GrantScope,
};
use atoll_api::policy::parse_duration;
use std::time::Duration;

/// Decide what sandboxes and `atoll apply` ask for
///
/// Where a policy has a person asked, about a host, a command or what a session applies, that waits
/// here until somebody decides, ten minutes at most.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(List),
    Show(Show),
    Approve(Box<ApproveArgs>),
    Deny(DenyArgs),
    Watch(Watch),
}

/// List approvals, the oldest first: those that are pending, unless another status is named
#[derive(Debug, clap::Args)]
struct List {
    /// Only those that stand so: pending, approved, denied or expired
    #[arg(long, value_name = "STATUS", default_value = "pending")]
    status: ApprovalStatus,
    /// Whatever their status is
    #[arg(long, conflicts_with = "status")]
    all: bool,
    /// Only of the sandbox of this id or name
    #[arg(long, value_name = "SANDBOX")]
    sandbox: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

/// Show an approval
#[derive(Debug, clap::Args)]
struct Show {
    /// Its id
    approval: String,
    #[command(flatten)]
    remote: Remote,
}

/// Approve what was asked for
///
/// Example: atoll approvals approve apr_0001020304050607abff --sandbox
#[derive(Debug, clap::Args)]
struct ApproveArgs {
    /// Its id
    approval: String,
    #[command(flatten)]
    scope: Scope,
    /// For how long, as in 1h [default: 10m for --once, no end for --sandbox, 30 days for --always]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    span: Option<Duration>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct Scope {
    /// It may happen once, which is what holds where nothing is said
    #[arg(long)]
    once: bool,
    /// The same may happen in this sandbox; not for what a session applies
    #[arg(long)]
    sandbox: bool,
    /// The same may happen in every sandbox, also in later ones; not for what a session applies
    #[arg(long)]
    always: bool,
}

/// Deny what was asked for, or take back that it was approved
#[derive(Debug, clap::Args)]
struct DenyArgs {
    /// Its id
    approval: String,
    /// Why, which whoever asked is told
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

/// Follow approvals: those that are pending, and each that changes
///
/// Goes on until it is interrupted, or the server ends.
#[derive(Debug, clap::Args)]
struct Watch {
    /// End after this many
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    match args.command {
        Command::List(args) => list(&args),
        Command::Show(Show { approval, remote }) => {
            let found = remote.ask(async |client| client.get_approval(&approval).await)?;
            remote::answer(&remote, &found, whole)
        }
        Command::Approve(args) => {
            let ApproveArgs { approval, scope, span, remote } = *args;
            let scope = match scope {
                Scope { always: true, .. } => GrantScope::Always,
                Scope { sandbox: true, .. } => GrantScope::Sandbox,
                Scope { .. } => GrantScope::Once,
            };
            let expires_in_s = span.map(|span| span.as_secs().max(1));
            let wanted = Approve { scope, expires_in_s };
            let decided = remote.ask(async |client| client.approve(&approval, &wanted).await)?;
            remote::answer(&remote, &decided, line)
        }
        Command::Deny(DenyArgs { approval, reason, remote }) => {
            let wanted = Deny { reason };
            let decided = remote.ask(async |client| client.deny(&approval, &wanted).await)?;
            remote::answer(&remote, &decided, line)
        }
        Command::Watch(args) => watch(args),
    }
}

fn list(args: &List) -> Result<Status, CliError> {
    let status = (!args.all).then_some(args.status);
    let found = args.remote.ask(async |client| {
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let page = client.list_approvals(status, args.sandbox.as_deref(), cursor).await?;
            all.extend(page.approvals);
            cursor = page.next;
            if cursor.is_none() {
                return Ok(all);
            }
        }
    })?;
    let row = |one: &Approval| {
        let (id, who) = (one.id.to_string(), who(one));
        let count = one.count.to_string();
        [id, who, one.status.to_string(), count, what(&one.what), one.rule.clone()]
    };
    let heading = ["ID", "WHO", "STATUS", "COUNT", "WHAT", "RULE"];
    say(&listed(args.remote.format(), &found, heading, row)).map(|_| Status::SUCCESS)
}

fn watch(args: Watch) -> Result<Status, CliError> {
    let remote = &args.remote;
    let client = remote.client()?;
    remote.wait(async {
        let failed = |error| remote.failed(error);
        let mut left = args.count;
        let mut approvals = client.follow_approvals().await.map_err(failed)?;
        while left != Some(0) {
            let approval = match approvals.next().await.map_err(failed)? {
                Some(Ok(approval)) => approval,
                Some(Err(reason)) => {
                    return Err(CliError::new(format!("the server ended the stream: {reason}")));
                }
                None => return Err(CliError::new("the stream of approvals broke off")),
            };
            left = left.map(|left| left - 1);
            let text = match remote.format() {
                Format::Json => lines(&[approval]),
                Format::Text => line(&approval),
            };
            if say(&text)? == Reader::Gone {
                break;
            }
        }
        Ok(Status::SUCCESS)
    })?
}

/// An approval in one line; what comes from a sandbox drives no terminal.
fn line(one: &Approval) -> String {
    let Approval { id, status, rule, .. } = one;
    let who = who(one);
    let more = match &one.decided {
        Some(decided) => {
            let scope = decided.scope.map(|scope| format!(" {}", scope.as_str()));
            let until = decided.until.map(|until| format!(" until {until}"));
            let reason = decided.reason.as_ref().map(|reason| format!(": {reason}"));
            [scope, until, reason].into_iter().flatten().collect()
        }
        None => String::new(),
    };
    let text = format!("{id} {who} {status}{more} {} ({rule})", what(&one.what));
    format!("{}\n", neutral(&text.replace('\n', " ")))
}

fn whole(one: &Approval) -> String {
    let value = serde_json::to_value(one).unwrap_or_default();
    let fields = value.as_object().into_iter().flatten();
    fields.map(|(name, value)| format!("{name}: {value}\n")).collect()
}

fn what(what: &ApprovalWhat) -> String {
    match what {
        ApprovalWhat::Network { host, port, method, path } => {
            let method = method.as_ref().map(|method| format!("{method} "));
            let port = port.map(|port| format!(":{port}"));
            let path = path.clone();
            let parts = [method, Some(host.clone()), port, path];
            parts.into_iter().flatten().collect()
        }
        ApprovalWhat::Exec { argv } => argv.join(" "),
        ApprovalWhat::Apply(applying) => {
            let Applying { session, project, added, modified, deleted, risky, .. } = &**applying;
            format!(
                "apply {session} to {project}: {added} added, {modified} modified, {deleted} \
                 deleted, {risky} of them risky"
            )
        }
    }
}

/// Who asked.
fn who(one: &Approval) -> String {
    let of_sandbox = one.sandbox_id.map(|id| id.to_string());
    of_sandbox.or_else(|| one.asked_by.clone()).unwrap_or_default()
}
