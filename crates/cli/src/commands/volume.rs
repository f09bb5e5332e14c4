//! `atoll volume`, and the flag that shows one in a sandbox.

use super::snapshot::time;
use super::wanted::label;
use crate::error::CliError;
use crate::remote::{self, Format, Remote, lines, say, size, table};
use crate::status::Status;
use atoll_api::policy::Bytes;
use atoll_api::sandbox::{PAGE_COUNT_MAX, Sandbox};
use atoll_api::volume::{
    CreateVolume, ListVolumes, SetVolumeLimit, Volume, VolumeAccess, VolumeMount, VolumeName,
    VolumeRef, VolumeUse,
};
use atoll_client::{Client, ClientError};
use std::io::{IsTerminal as _, Write as _};

/// Make volumes, look at them and delete them
///
/// A volume is a directory that outlives sandboxes. `atoll create --volume` shows it in one: to read,
/// to write alone, or to write beside others.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Create(Create),
    Snapshot(Snapshot),
    Limit(Limit),
    Export(Export),
    List(List),
    Show(Show),
    Delete(Delete),
}

/// Make a volume, and print its id
///
/// It is empty; or a copy of another one as that is at one moment, while sandboxes that write to that
/// stand still; or a folder of the server's machine, one that its settings grant.
///
/// Example: atoll volume create models --limit 20GiB
#[derive(Debug, clap::Args)]
struct Create {
    /// Its name
    name: VolumeName,
    /// A label to find it by; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// The volume, by its id or name, that it is to be a copy of
    #[arg(long, value_name = "VOLUME")]
    copy_of: Option<VolumeRef>,
    /// The most that its files may take on the disk
    #[arg(long, value_name = "SIZE")]
    limit: Option<Bytes>,
    /// The folder of the server's machine that it is to be; needs a key of scope admin
    #[arg(long, value_name = "PATH", conflicts_with_all = ["copy_of", "limit"])]
    host_path: Option<String>,
    /// Nobody is to write to that folder
    #[arg(long, requires = "host_path")]
    read_only: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Limit how much may lie on a volume
///
/// In place of the limit that it has, and not below what lies on it. On btrfs with quotas, writing
/// beyond it fails; elsewhere the server measures, and stops the sandboxes that write to a full one.
///
/// Example: atoll volume limit models 40GiB
#[derive(Debug, clap::Args)]
struct Limit {
    /// Its id or name
    volume: VolumeRef,
    /// The most that its files may take on the disk, or `none`
    #[arg(value_name = "SIZE", value_parser = most)]
    most: Most,
    #[command(flatten)]
    remote: Remote,
}

/// A limit, or that there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Most(Option<u64>);

fn most(text: &str) -> Result<Most, String> {
    if text == "none" {
        return Ok(Most(None));
    }
    let size: Bytes = text.parse().map_err(|error| format!("{error}; or write none"))?;
    Ok(Most(Some(size.0)))
}

/// Take a snapshot of a volume: a copy that nobody writes to, ever
///
/// It is a volume by itself: sandboxes have it as read-only, and copies of it can be written. Sandboxes
/// that write to the original stand still meanwhile.
///
/// Example: atoll volume snapshot models models-monday
#[derive(Debug, clap::Args)]
struct Snapshot {
    /// Of which, by its id or name
    volume: VolumeRef,
    /// The snapshot's name
    name: VolumeName,
    /// A label to find it by; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    #[command(flatten)]
    remote: Remote,
}

/// Print what a volume holds as a tar archive
///
/// Nobody may write to it meanwhile: where a sandbox does, take a snapshot and export that. Owners are
/// nobody's. It is whole if and only if the exit status is 0.
///
/// Example: atoll volume export models > models.tar
#[derive(Debug, clap::Args)]
struct Export {
    /// Its id or name
    volume: VolumeRef,
    #[command(flatten)]
    remote: Remote,
}

/// List volumes by name, with the sandboxes that have them
///
/// One that is stopped is in brackets: it keeps nobody from anything.
#[derive(Debug, clap::Args)]
struct List {
    /// Only those with this label; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// Print names only
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Show all that is known of a volume
#[derive(Debug, clap::Args)]
struct Show {
    /// Its id or name
    volume: VolumeRef,
    #[command(flatten)]
    remote: Remote,
}

/// Delete volumes, with all that they hold
///
/// One that a sandbox has stays, be that sandbox stopped.
#[derive(Debug, clap::Args)]
struct Delete {
    /// Their ids or names
    #[arg(required = true)]
    volumes: Vec<VolumeRef>,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    match args.command {
        Command::Create(args) => {
            let Create { name, label, copy_of, limit, host_path, read_only, remote } = args;
            let (labels, limit_bytes) = (label.into_iter().collect(), limit.map(|size| size.0));
            let is_read_only = read_only;
            let wanted =
                CreateVolume { name, labels, copy_of, is_read_only, limit_bytes, host_path };
            create(&remote, &wanted)
        }
        Command::Snapshot(Snapshot { volume, name, label, remote }) => {
            let (labels, copy_of) = (label.into_iter().collect(), Some(volume));
            let (limit_bytes, host_path) = (None, None);
            let is_read_only = true;
            let wanted =
                CreateVolume { name, labels, copy_of, is_read_only, limit_bytes, host_path };
            create(&remote, &wanted)
        }
        Command::Limit(Limit { volume, most, remote }) => {
            let wanted = SetVolumeLimit { bytes: most.0 };
            let set = remote.ask(async |client| client.set_volume_limit(&volume, &wanted).await)?;
            remote::answer(&remote, &set, |_| String::new())
        }
        Command::Export(args) => export(&args),
        Command::List(args) => list(args),
        Command::Show(Show { volume, remote }) => {
            let found = remote.ask(async |client| client.get_volume(&volume).await)?;
            remote::answer(&remote, &found, remote::pretty)
        }
        Command::Delete(Delete { volumes, remote }) => {
            remote.each(&volumes, async |client, one| client.delete_volume(one).await, Ok)
        }
    }
}

fn create(remote: &Remote, wanted: &CreateVolume) -> Result<Status, CliError> {
    let made = remote.ask(async |client| client.create_volume(wanted).await)?;
    if remote.format() == Format::Text
        && let Some(copied) = &made.copied
    {
        let still = match copied.frozen_us {
            0 => String::new(),
            us => format!("; who writes stood still for {}", time(us)),
        };
        let (way, size) = (copied.way.as_str(), size(copied.copied_bytes));
        let text = format!("atoll: copied by {way}, {size} of it new{still}\n");
        // A closed stderr leaves nobody to tell.
        std::io::stderr().write_all(text.as_bytes()).ok();
    }
    remote::answer(remote, &made, |made| format!("{}\n", made.id))
}

fn export(args: &Export) -> Result<Status, CliError> {
    if std::io::stdout().is_terminal() {
        let hint = format!("write `atoll volume export {0} > {0}.tar`", args.volume);
        return Err(CliError::new("an archive is nothing for a terminal").hint(hint).exit_with(2));
    }
    let client = args.remote.client()?;
    let failed = |error| args.remote.failed(error);
    args.remote.wait(async {
        let mut archive = client.export_volume(&args.volume).await.map_err(failed)?;
        let mut out = std::io::stdout().lock();
        while let Some(piece) = archive.next().await.map_err(failed)? {
            let written = out.write_all(&piece);
            written.map_err(|error| CliError::new("cannot write the archive").because(error))?;
        }
        out.flush().map_err(|error| CliError::new("cannot write the archive").because(error))
    })??;
    Ok(Status::SUCCESS)
}

fn list(args: List) -> Result<Status, CliError> {
    let List { label, quiet, remote } = args;
    let wanted = ListVolumes { labels: label.into_iter().collect(), ..ListVolumes::default() };
    let found = remote.ask(async |client| all(&client, wanted).await)?;
    let text = match remote.format() {
        Format::Json => lines(&found),
        Format::Text if quiet => found.iter().map(|found| format!("{}\n", found.name)).collect(),
        Format::Text => table(
            ["NAME", "ID", "MADE", "ACCESS", "LIMIT", "USED BY"],
            &found.iter().map(row).collect::<Vec<_>>(),
        ),
    };
    say(&text).map(|_| Status::SUCCESS)
}

/// Every page.
async fn all(client: &Client, mut wanted: ListVolumes) -> Result<Vec<Volume>, ClientError> {
    wanted.page_count = Some(PAGE_COUNT_MAX);
    let mut found = Vec::new();
    loop {
        let page = client.list_volumes(&wanted).await?;
        found.extend(page.volumes);
        wanted.after = page.next;
        if wanted.after.is_none() {
            return Ok(found);
        }
    }
}

fn row(one: &Volume) -> [String; 6] {
    let users: Vec<String> = one.used_by.iter().map(user).collect();
    let access = if one.is_read_only { "ro" } else { "rw" };
    let (name, id) = (one.name.to_string(), one.id.to_string());
    let limit = one.limit.map_or_else(
        || "-".to_owned(),
        |limit| {
            let used = one.used_bytes.map_or_else(|| "?".to_owned(), size);
            format!("{used} of {}", size(limit.bytes))
        },
    );
    [name, id, one.created_at.to_string(), access.to_owned(), limit, users.join(" ")]
}

fn user(one: &VolumeUse) -> String {
    let name = one.sandbox_name.as_ref();
    let called = name.map_or_else(|| one.sandbox_id.to_string(), ToString::to_string);
    let text = format!("{called}:{}:{}", one.path, one.access);
    if one.is_held { text } else { format!("[{text}]") }
}

/// `NAME:/path`, with `:ro` or `:shared` behind it.
pub(super) fn mount(text: &str) -> Result<VolumeMount, String> {
    let form = "write NAME:/PATH, NAME:/PATH:ro or NAME:/PATH:shared";
    let (volume, rest) = text.split_once(':').ok_or(form)?;
    let (path, access) = match rest.rsplit_once(':') {
        None => (rest, VolumeAccess::Writer),
        Some((path, "ro")) => (path, VolumeAccess::ReadOnly),
        Some((path, "rw")) => (path, VolumeAccess::Writer),
        Some((path, "shared")) => (path, VolumeAccess::Shared),
        Some(_) => return Err(form.to_owned()),
    };
    let volume = volume.parse().map_err(|error| format!("{error}"))?;
    Ok(VolumeMount { volume, path: path.to_owned(), access })
}

/// Says what to beware of.
pub(super) fn warn(sandbox: &Sandbox) {
    for volume in &sandbox.volumes {
        let Some(warning) = &volume.warning else { continue };
        let text = format!("atoll: volume {}: {warning}\n", volume.name);
        // A closed stderr leaves nobody to tell.
        std::io::stderr().write_all(text.as_bytes()).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_size_or_none() {
        assert_eq!(most("none"), Ok(Most(None)));
        assert_eq!(most("2GiB"), Ok(Most(Some(2 << 30))));
        assert!(most("much").unwrap_err().ends_with("or write none"));
    }

    #[test]
    fn a_volume_has_a_place_and_an_access() {
        for (text, path, access) in [
            ("models:/data", "/data", VolumeAccess::Writer),
            ("models:/data:rw", "/data", VolumeAccess::Writer),
            ("models:/data:ro", "/data", VolumeAccess::ReadOnly),
            ("models:/a:b:shared", "/a:b", VolumeAccess::Shared),
        ] {
            let found = mount(text).unwrap();
            assert_eq!((found.path.as_str(), found.access), (path, access), "{text}");
            assert_eq!(found.volume.to_string(), "models");
        }
        for text in ["models", "Models:/data", ":/data", "models:/data:x", "vol_1:/data"] {
            assert!(mount(text).is_err(), "{text}");
        }
    }
}
