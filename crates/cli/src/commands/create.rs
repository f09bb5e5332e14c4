//! `atoll create`.

use super::volume;
use super::wanted::Wanted;
use crate::error::CliError;
use crate::remote::workspace::{Packing, Source};
use crate::remote::{self, Format, Remote};
use crate::status::Status;
use atoll_api::id::SnapshotId;
use atoll_api::image::ImagePull;
use atoll_api::name::SandboxName;
use atoll_api::sandbox::{CreateSandbox, Sandbox};
use atoll_api::template::TemplateRef;
use atoll_store::pack::{LeftOut, PackError};
use std::io::Write as _;
use std::path::Path;

/// Make a sandbox that outlives a command
///
/// Prints its id when it runs. A command that is interrupted before leaves none.
///
/// Example: atoll create web --memory 2GiB --idle-stop 30m
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A name, to call it by
    name: Option<SandboxName>,
    /// Give the sandbox of that name if there is one, as it is
    #[arg(long, requires = "name")]
    get: bool,
    /// What it is made of: host, an image as in python:3.12-slim, or a path on the server's machine
    #[arg(long, value_name = "IMAGE", default_value = "host")]
    image: String,
    /// The snapshot that it begins with, in place of an image
    #[arg(long, value_name = "ID", conflicts_with = "image")]
    snapshot: Option<SnapshotId>,
    /// The template that it begins with, in place of an image: NAME, or NAME@VERSION
    #[arg(long, value_name = "TEMPLATE", conflicts_with_all = ["image", "snapshot"])]
    template: Option<TemplateRef>,
    /// The pool whose member it is to be, in place of an image; what is not said is as the pool says
    #[arg(long, value_name = "NAME", conflicts_with_all = ["image", "snapshot", "template"])]
    pool: Option<SandboxName>,
    /// Whether an image of a registry is pulled
    #[arg(long, value_name = "WHEN", value_enum, default_value = "missing")]
    pull: Pull,
    /// The files that it begins with: a directory, which is sent without what its ignore files
    /// hide, or the URL of a repository; they come to /home/user/workspace
    #[arg(long, value_name = "PATH|URL")]
    workspace: Option<String>,
    /// The branch of a repository that is cloned
    #[arg(long, value_name = "NAME", requires = "workspace")]
    branch: Option<String>,
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    remote: Remote,
}

fn cannot_send(directory: &Path, error: &PackError) -> CliError {
    let source = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    CliError::new(format!("cannot send the workspace {}", directory.display()))
        .because(format!("{error}: {source}"))
        .hint("no sandbox was made; try again when nothing changes in the directory")
}

/// Says what is missing in the workspace.
fn tell(left_out: &LeftOut) {
    let mut text: String = left_out
        .names
        .iter()
        .map(|(name, reason)| format!("atoll: left out {}: {reason}\n", name.display()))
        .collect();
    let more = left_out.count.saturating_sub(left_out.names.len() as u64);
    if more > 0 {
        text += &format!("atoll: left out {more} more\n");
    }
    // A closed stderr leaves nobody to tell.
    std::io::stderr().write_all(text.as_bytes()).ok();
}

/// When an image is pulled.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Pull {
    /// If it is not there
    Missing,
    /// Not even then
    Never,
    /// Also if it is there
    Always,
}

impl From<Pull> for ImagePull {
    fn from(pull: Pull) -> Self {
        match pull {
            Pull::Missing => Self::Missing,
            Pull::Never => Self::Never,
            Pull::Always => Self::Always,
        }
    }
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let mut wanted = CreateSandbox {
        name: args.name.clone(),
        image: args.image,
        image_pull: args.pull.into(),
        snapshot: args.snapshot,
        template: args.template,
        pool: args.pool,
        ..args.wanted.request()?
    };
    let source = match &args.workspace {
        Some(text) => Some(Source::parse(text, args.branch.as_deref())?),
        None => None,
    };
    wanted.workspace = source.as_ref().map(Source::wanted);
    let get = args.name.filter(|_| args.get);
    if let Some(Source::Directory(directory)) = source {
        let (upload, packed) = Packing::begin(&directory)?.split();
        let made = args
            .remote
            .ask(async |client| client.create_sandbox_with(&wanted, get.as_ref(), upload).await);
        let left_out = match packed() {
            Ok(left_out) => left_out,
            // Nobody took it any more, which the answer explains.
            Err(PackError::Write(_)) => LeftOut::default(),
            Err(error) => return Err(cannot_send(&directory, &error)),
        };
        tell(&left_out);
        return answer(&args.remote, &made?);
    }
    let made = match get {
        Some(name) => args.remote.ask(async |client| {
            client.get_or_create_sandbox(&name, &wanted).await.map(|(sandbox, _)| sandbox)
        }),
        None => args.remote.ask(async |client| client.create_sandbox(&wanted, None).await),
    };
    answer(&args.remote, &made?)
}

fn answer(remote: &Remote, made: &Sandbox) -> Result<Status, CliError> {
    if remote.format() == Format::Text {
        volume::warn(made);
    }
    remote::answer(remote, made, |sandbox| format!("{}\n", sandbox.id))
}
