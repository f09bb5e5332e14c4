//! `atoll events`.

use crate::error::CliError;
use crate::remote::{Format, Reader, Remote, lines, say};
use crate::serve::places::Places;
use crate::status::Status;
use atoll_api::audit::AuditRecord;
use atoll_api::sandbox::Event;
use atoll_client::audit::AuditWanted;
use atoll_client::events::Told;
use atoll_engine::audit::Verdict;
use atoll_engine::audit::line::Hash;
use atoll_engine::audit::verify::{Broken, Whole};
use atoll_store::escape::escape;
use serde_json::json;
use std::io::Write as _;
use std::path::PathBuf;

/// Exit status when the audit log is not as it was written.
const EXIT_BROKEN: u8 = 1;

/// Follow what happens to sandboxes
///
/// Goes on until it is interrupted, or the server ends.
///
/// With --audit it prints the audit log instead: what was allowed, refused, decided and run. That
/// ends with the last record, unless --follow has it go on.
///
/// Example: atoll events --after 0 --json
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Only what happens to the sandbox of this id or name
    sandbox: Option<String>,
    /// Print the audit log
    #[arg(long)]
    audit: bool,
    /// Go on with what is recorded from now on
    #[arg(long, requires = "audit")]
    follow: bool,
    /// Only records of this kind, as in exec_started; can be repeated
    #[arg(long, value_name = "KIND", requires = "audit")]
    kind: Vec<String>,
    /// As SANDBOX
    #[arg(long = "sandbox", value_name = "SANDBOX", conflicts_with = "sandbox")]
    of: Option<String>,
    /// Begin behind the event of this number; 0 gives all that is kept [default: from now on]
    #[arg(long, value_name = "NUMBER")]
    after: Option<u64>,
    /// End after this many
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Verify(Verify),
}

/// Check that the audit log is as it was written, and name the first line that is not
///
/// It reads the files in the state directory, also while the server writes them. The hash that it
/// prints stands for all before it: kept elsewhere, and given with --hash later, it shows that
/// nothing before was exchanged.
///
/// Example: atoll events verify
#[derive(Debug, clap::Args)]
struct Verify {
    /// The state directory [default: as for `atoll serve`]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// A hash that was printed before, which has to be in the log
    #[arg(long, value_name = "HASH")]
    hash: Option<String>,
    /// Print JSON: one object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    match args {
        Args { command: Some(Command::Verify(args)), .. } => verify(args),
        args if args.audit => audit(args),
        args => follow(args),
    }
}

fn verify(args: Verify) -> Result<Status, CliError> {
    let hash = args.hash.as_deref().map(|text| {
        Hash::parse(text).ok_or_else(|| CliError::new(format!("{text:?} is no hash of the log")))
    });
    let folder = Places::choose(args.state, None)?.audit();
    let verdict = atoll_engine::audit::verify(&folder, hash.transpose()?).map_err(|error| {
        let told = CliError::new(error.to_string());
        told.because(error.source).hint("name the state directory of the server with --state")
    })?;
    let (text, value, is_whole) = match verdict {
        Verdict::Broken(Broken { path, line, seq, why }) => {
            let path = escape(&path);
            let text = format!("{path}: line {line} (record {seq}): {why}\n");
            let value = json!({
                "whole": false, "file": path, "line": line, "seq": seq, "why": why,
            });
            (text, value, false)
        }
        Verdict::Whole(Whole { first, last, hash, has_known, torn_bytes }) => {
            let mut text = format!("records {first} to {last} are as they were written\n");
            if torn_bytes > 0 {
                text += &format!("{torn_bytes} bytes behind them are no whole line yet\n");
            }
            let is_whole = has_known || args.hash.is_none();
            if !is_whole {
                text += "the given hash is not among them\n";
            }
            text += &format!("hash {hash}\n");
            let value = json!({
                "whole": is_whole, "first": first, "last": last, "hash": hash.to_string(),
                "torn_bytes": torn_bytes, "has_hash": args.hash.as_ref().map(|_| has_known),
            });
            (text, value, is_whole)
        }
    };
    say(&if args.json { lines(&[value]) } else { text })?;
    Ok(if is_whole { Status::SUCCESS } else { Status::from(EXIT_BROKEN) })
}

fn audit(args: Args) -> Result<Status, CliError> {
    let remote = &args.remote;
    let client = remote.client()?;
    let mut left = args.count.unwrap_or(u64::MAX);
    let sandbox = args.of.or(args.sandbox);
    // What is kept, unless only what comes is asked for.
    let mut wanted = AuditWanted { after: args.after, sandbox, kinds: args.kind };
    let mut print = |records: &[AuditRecord]| -> Result<Reader, CliError> {
        let most = usize::try_from(left).unwrap_or(usize::MAX);
        let records = &records[..records.len().min(most)];
        left -= records.len() as u64;
        let text = match remote.format() {
            Format::Json => lines(records),
            Format::Text => records.iter().map(audit_words).collect(),
        };
        Ok(if say(&text)? == Reader::Gone || left == 0 { Reader::Gone } else { Reader::Reads })
    };
    remote.wait(async {
        let failed = |error| remote.failed(error);
        if args.follow {
            let mut stream = client.follow_audit(&wanted).await.map_err(failed)?;
            loop {
                match stream.next().await.map_err(failed)? {
                    Some(Ok(record)) => {
                        if print(&[record])? == Reader::Gone {
                            return Ok(Status::SUCCESS);
                        }
                    }
                    Some(Err(reason)) => {
                        let message = format!("the server ended the stream: {reason}");
                        return Err(CliError::new(message));
                    }
                    None => return Err(CliError::new("the stream of records broke off")),
                }
            }
        }
        loop {
            let page = client.get_audit(&wanted).await.map_err(failed)?;
            let reader = print(&page.records)?;
            wanted.after = page.next;
            if reader == Reader::Gone || page.next.is_none() {
                return Ok(Status::SUCCESS);
            }
        }
    })?
}

fn audit_words(record: &AuditRecord) -> String {
    let sandbox = record.sandbox_id.map_or_else(|| "-".to_owned(), |id| id.to_string());
    format!("{} {} {sandbox} {}\n", record.seq, record.at, kind_words(&record.what))
}

fn follow(args: Args) -> Result<Status, CliError> {
    let remote = &args.remote;
    let client = remote.client()?;
    remote.wait(async {
        let failed = |error| remote.failed(error);
        let mut left = args.count;
        let sandbox = args.of.or(args.sandbox);
        let mut events =
            client.follow_events(args.after, sandbox.as_deref()).await.map_err(failed)?;
        while left != Some(0) {
            let event = match events.next().await.map_err(failed)? {
                Some(Told::Event(event)) => event,
                Some(Told::Missed(count)) => {
                    // Nobody is left to tell where stderr is closed.
                    writeln!(std::io::stderr(), "atoll: {count} events are not kept any more").ok();
                    continue;
                }
                Some(Told::End(reason)) => {
                    return Err(CliError::new(format!("the server ended the stream: {reason}")));
                }
                None => return Err(CliError::new("the stream of events broke off")),
            };
            left = left.map(|left| left - 1);
            let text = match remote.format() {
                Format::Json => lines(&[event]),
                Format::Text => words(&event),
            };
            if say(&text)? == Reader::Gone {
                break;
            }
        }
        Ok(Status::SUCCESS)
    })?
}

fn words(event: &Event) -> String {
    format!("{} {} {} {}\n", event.seq, event.at, event.sandbox_id, kind_words(&event.what))
}

/// The kind of something, and what else is told of it.
fn kind_words(what: &impl serde::Serialize) -> String {
    let what = serde_json::to_value(what).unwrap_or_default();
    let kind = what["kind"].as_str().unwrap_or_default();
    let more: String = what
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| *name != "kind")
        .map(|(name, value)| format!(" {name}={value}"))
        .collect();
    format!("{kind}{more}")
}
