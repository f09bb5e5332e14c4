//! One file per command.

mod act;
mod apply;
mod approvals;
mod archive;
mod budget;
mod completions;
mod cp;
mod create;
mod diff;
mod discard;
mod doctor;
mod events;
mod exec;
mod expose;
mod fork;
mod image;
mod keys;
mod list;
mod logs;
mod man;
mod network;
mod policy;
mod pool;
mod ps;
mod restore;
pub(crate) mod run;
mod secret;
mod serve;
mod shell;
mod show;
mod snapshot;
mod template;
mod usage;
mod volume;
mod wait;
pub(crate) mod wanted;

use crate::error::CliError;
use crate::status::Status;
use act::Verb;
use atoll_client::Action;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Run(Box<run::Args>),
    Diff(diff::Args),
    Apply(apply::Args),
    Discard(discard::Args),
    Policy(policy::Args),
    Doctor(doctor::Args),
    Serve(serve::Args),
    Create(Box<create::Args>),
    List(list::Args),
    Show(show::Args),
    Network(network::Args),
    Exec(Box<exec::Args>),
    Shell(shell::Args),
    Cp(cp::Args),
    Ps(ps::Args),
    Logs(logs::Args),
    Wait(wait::Args),
    Expose(expose::Args),
    Snapshot(snapshot::Args),
    Archive(archive::Args),
    Fork(Box<fork::Args>),
    Restore(restore::Args),
    /// Let sandboxes run that were stopped
    Start(act::Args),
    /// Ask the processes of sandboxes to end, and kill them if they do not
    Stop(act::Args),
    /// Freeze the processes of sandboxes; they keep their memory
    Pause(act::Args),
    /// Let sandboxes go on that were paused
    Resume(act::Args),
    /// Kill the processes of sandboxes; their files stay
    Kill(act::Args),
    /// Delete sandboxes, with their files
    Delete(act::DeleteArgs),
    Events(events::Args),
    Usage(usage::Args),
    Budget(budget::Args),
    Approvals(approvals::Args),
    Image(image::Args),
    Template(template::Args),
    Volume(volume::Args),
    Pool(pool::Args),
    Keys(keys::Args),
    Secret(secret::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    pub(crate) fn run(self) -> Result<Status, CliError> {
        match self {
            Self::Run(args) => run::run(*args, run::Begun::now()),
            Self::Diff(args) => diff::run(args),
            Self::Apply(args) => apply::run(args),
            Self::Discard(args) => discard::run(args),
            Self::Policy(args) => policy::run(args),
            Self::Doctor(args) => doctor::run(args),
            Self::Serve(args) => serve::run(args),
            Self::Create(args) => create::run(*args),
            Self::List(args) => list::run(args),
            Self::Show(args) => show::run(args),
            Self::Network(args) => network::run(args),
            Self::Exec(args) => exec::run(*args),
            Self::Shell(args) => shell::run(args),
            Self::Cp(args) => cp::run(args),
            Self::Ps(args) => ps::run(args),
            Self::Logs(args) => logs::run(args),
            Self::Wait(args) => wait::run(args),
            Self::Expose(args) => expose::run(args),
            Self::Snapshot(args) => snapshot::run(args),
            Self::Archive(args) => archive::run(args),
            Self::Fork(args) => fork::run(*args),
            Self::Restore(args) => restore::run(args),
            Self::Start(args) | Self::Resume(args) => act::run(args, Verb::Act(Action::Resume)),
            Self::Stop(args) => act::run(args, Verb::Act(Action::Stop)),
            Self::Pause(args) => act::run(args, Verb::Act(Action::Pause)),
            Self::Kill(args) => act::run(args, Verb::Act(Action::Kill)),
            Self::Delete(args) => act::delete(args),
            Self::Events(args) => events::run(args),
            Self::Usage(args) => usage::run(args),
            Self::Budget(args) => budget::run(args),
            Self::Approvals(args) => approvals::run(args),
            Self::Image(args) => image::run(args),
            Self::Template(args) => template::run(args),
            Self::Volume(args) => volume::run(args),
            Self::Pool(args) => pool::run(args),
            Self::Keys(args) => keys::run(args),
            Self::Secret(args) => secret::run(args),
            Self::Completions(args) => completions::run(args),
            Self::Man(args) => man::run(args),
        }
    }
}
