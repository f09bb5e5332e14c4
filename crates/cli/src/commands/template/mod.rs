//! `atoll template`.

mod build;
mod files;

use crate::error::CliError;
use crate::remote::{self, Remote, listed, pretty, say};
use crate::status::Status;
use atoll_api::id::BuildId;
use atoll_api::template::{Build, Template, TemplateName, TemplateRef};
use std::path::PathBuf;

/// Build what sandboxes are made of, and keep it
///
/// A template is built by steps that are written in a file, on an image or another template. Each
/// build makes a new version of it; sandboxes are made of the latest one.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Build(BuildArgs),
    List(List),
    Show(Show),
    Delete(Delete),
    Builds(Builds),
    Logs(Logs),
    Cancel(Cancel),
}

/// Build a template, and show what its steps print
///
/// Steps that were done before to the same are not done again. The build goes on when this command
/// is interrupted: `atoll template logs` follows it.
///
/// Example: atoll template build .
#[derive(Debug, clap::Args)]
struct BuildArgs {
    /// The file, or a directory with a template.toml
    #[arg(default_value = ".")]
    path: PathBuf,
    /// Do every step anew
    #[arg(long)]
    no_cache: bool,
    /// Print the id of the build, and leave it to itself
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    remote: Remote,
}

/// List the templates, with their latest versions
#[derive(Debug, clap::Args)]
struct List {
    #[command(flatten)]
    remote: Remote,
}

/// Show a template with its versions, as JSON
#[derive(Debug, clap::Args)]
struct Show {
    /// Its name, or NAME@VERSION
    template: TemplateRef,
    #[command(flatten)]
    remote: Remote,
}

/// Delete a template, or a version of it
///
/// Sandboxes that were made of it stay.
#[derive(Debug, clap::Args)]
struct Delete {
    /// Its name, or NAME@VERSION
    template: TemplateRef,
    #[command(flatten)]
    remote: Remote,
}

/// List builds, the latest first
#[derive(Debug, clap::Args)]
struct Builds {
    /// Only of this template
    template: Option<TemplateName>,
    #[command(flatten)]
    remote: Remote,
}

/// Show what a build says, to its end
#[derive(Debug, clap::Args)]
struct Logs {
    /// Its id
    build: BuildId,
    #[command(flatten)]
    remote: Remote,
}

/// Cancel a build
///
/// What came of steps that were done is kept for a later one.
#[derive(Debug, clap::Args)]
struct Cancel {
    /// Its id
    build: BuildId,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    match args.command {
        Command::Build(BuildArgs { path, no_cache, detach, remote }) => {
            let build = build::begin(&path, no_cache, &remote)?;
            if detach {
                return remote::answer(&remote, &build, |build| format!("{}\n", build.id));
            }
            build::follow(build.id, &remote)
        }
        Command::Logs(Logs { build, remote }) => build::follow(build, &remote),
        Command::List(List { remote }) => {
            let templates = remote.ask(async |client| client.list_templates().await)?.templates;
            show(&remote, &templates, ["NAME", "LATEST", "VERSIONS", "MADE"], row)
        }
        Command::Show(Show { template, remote }) => {
            let template = remote.ask(async |client| client.get_template(&template).await)?;
            remote::answer(&remote, &template, pretty)
        }
        Command::Delete(Delete { template, remote }) => {
            remote.ask(async |client| client.delete_template(&template).await)?;
            Ok(Status::SUCCESS)
        }
        Command::Builds(Builds { template, remote }) => {
            let wanted = template.as_ref();
            let builds = remote.ask(async |client| client.list_builds(wanted).await)?.builds;
            show(&remote, &builds, ["ID", "TEMPLATE", "STATE", "CREATED"], build_row)
        }
        Command::Cancel(Cancel { build, remote }) => {
            let build = remote.ask(async |client| client.cancel_build(build).await)?;
            remote::answer(&remote, &build, |build| format!("{}\n", build.state.as_str()))
        }
    }
}

fn show<T: serde::Serialize, const N: usize>(
    remote: &Remote,
    items: &[T],
    heading: [&str; N],
    row: impl Fn(&T) -> [String; N],
) -> Result<Status, CliError> {
    say(&listed(remote.format(), items, heading, row)).map(|_| Status::SUCCESS)
}

fn row(template: &Template) -> [String; 4] {
    let latest = template.versions.first();
    let made = latest.map_or_else(|| "-".to_owned(), |version| version.created_at.to_string());
    let latest = latest.map_or_else(|| "-".to_owned(), |version| version.version.to_string());
    [template.name.to_string(), latest, template.versions.len().to_string(), made]
}

fn build_row(build: &Build) -> [String; 4] {
    let name = match build.version {
        Some(version) => format!("{}@{version}", build.name),
        None => build.name.to_string(),
    };
    let state = build.state.as_str().to_owned();
    [build.id.to_string(), name, state, build.created_at.to_string()]
}
