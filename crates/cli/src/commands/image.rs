//! `atoll image`.

use crate::error::CliError;
use crate::remote::{self, Format, Remote, lines, say, size, table};
use crate::status::Status;
use atoll_api::image::{Image, ImageProgress, PruneImages};
use atoll_client::images::{PullStream, Pulled};
use std::io::{IsTerminal as _, Write as _};

/// Keep images that sandboxes are made of
///
/// They belong to the server. An image comes from a registry, or from a file on the server's machine.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Pull(Pull),
    Import(Import),
    List(List),
    Show(Show),
    Delete(Delete),
    Prune(Prune),
}

/// Pull an image from a registry
///
/// Names are as everywhere: without a registry they are Docker Hub's. A registry that is spoken to
/// without TLS is named with http:// before its host.
///
/// Example: atoll image pull python:3.12-slim
#[derive(Debug, clap::Args)]
struct Pull {
    /// Its name, as in debian:12 or registry.example/team/tools:1
    image: String,
    #[command(flatten)]
    remote: Remote,
}

/// Import an image from a file or a directory on the server's machine
///
/// It takes what `docker save` writes and OCI's layout, each as a directory or an archive. Sandboxes are
/// then made of it by the same words.
///
/// Example: atoll image import docker-archive:/srv/tools.tar
#[derive(Debug, clap::Args)]
struct Import {
    /// oci:PATH[:TAG], oci-archive:PATH[:TAG], docker-archive:PATH[:NAME], or just a path; absolute
    image: String,
    #[command(flatten)]
    remote: Remote,
}

/// List the images
#[derive(Debug, clap::Args)]
struct List {
    #[command(flatten)]
    remote: Remote,
}

/// Show what an image is, and how it wants to be run
#[derive(Debug, clap::Args)]
struct Show {
    /// A name of it, its digest, or the first digits of that
    image: String,
    #[command(flatten)]
    remote: Remote,
}

/// Remove a name of an image, and the image with its last one
///
/// An image that a sandbox or a snapshot was made of stays. By its digest it goes with all its names.
#[derive(Debug, clap::Args)]
struct Delete {
    /// A name of it, its digest, or the first digits of that
    image: String,
    #[command(flatten)]
    remote: Remote,
}

/// Remove images that have no name, and what no image needs
#[derive(Debug, clap::Args)]
struct Prune {
    /// Also remove those that have one, unless a sandbox or a snapshot was made of them
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    match args.command {
        Command::Pull(Pull { image, remote }) | Command::Import(Import { image, remote }) => {
            pull(&image, &remote)
        }
        Command::List(List { remote }) => list(&remote),
        Command::Show(Show { image, remote }) => {
            let image = remote.ask(async |client| client.get_image(&image).await)?;
            remote::answer(&remote, &image, remote::pretty)
        }
        Command::Delete(Delete { image, remote }) => {
            remote.ask(async |client| client.delete_image(&image).await)?;
            Ok(Status::SUCCESS)
        }
        Command::Prune(Prune { all, remote }) => {
            let wanted = PruneImages { all };
            let pruned = remote.ask(async |client| client.prune_images(&wanted).await)?;
            remote::answer(&remote, &pruned, |pruned| {
                let (images, layers) = (pruned.images, pruned.layers);
                format!("removed {images} images and {layers} layers of {}\n", size(pruned.bytes))
            })
        }
    }
}

/// Pulls, and says on a terminal how far it is; as JSON, each step is a line.
fn pull(image: &str, remote: &Remote) -> Result<Status, CliError> {
    let format = remote.format();
    let is_shown = format == Format::Text && std::io::stderr().is_terminal();
    let told = remote.ask(async |client| {
        let mut stream: PullStream = client.pull_image(image).await?;
        loop {
            match stream.next().await? {
                Some(Pulled::Progress(progress)) if is_shown => {
                    let mut stderr = std::io::stderr();
                    // Whether anybody reads it makes no difference.
                    write!(stderr, "\r{}\u{1b}[K", how_far(&progress)).ok();
                }
                Some(Pulled::Progress(progress)) if format == Format::Json => {
                    let told = serde_json::json!({ "progress": progress });
                    // Whoever does not read it any more may want the image still.
                    say(&lines(&[told])).ok();
                }
                Some(Pulled::Progress(_)) => {}
                other => return Ok(other),
            }
        }
    });
    if is_shown {
        write!(std::io::stderr(), "\r\u{1b}[K").ok();
    }
    match told? {
        Some(Pulled::Image(image)) => remote::answer(remote, &*image, |image| {
            let name = image.names.first().map_or(image.digest.as_str(), |name| &name.name);
            format!("{name}: {}\n", size(image.size_bytes))
        }),
        Some(Pulled::End(_) | Pulled::Progress(_)) | None => {
            let error = CliError::new("the server ended before the image was there");
            Err(error.hint("pull it again"))
        }
    }
}

fn how_far(progress: &ImageProgress) -> String {
    let ImageProgress { layers_done, layers_total, bytes_done, bytes_total } = progress;
    let (done, total) = (size(*bytes_done), size(*bytes_total));
    format!("{layers_done} of {layers_total} layers, {done} of {total}")
}

fn list(remote: &Remote) -> Result<Status, CliError> {
    let images = remote.ask(async |client| client.list_images().await)?.images;
    let text = match remote.format() {
        Format::Json => lines(&images),
        Format::Text => {
            let rows: Vec<[String; 4]> = images.iter().flat_map(rows).collect();
            table(["NAME", "DIGEST", "SIZE", "USED"], &rows)
        }
    };
    say(&text).map(|_| Status::SUCCESS)
}

/// A row for each name.
fn rows(image: &Image) -> Vec<[String; 4]> {
    let digest = image.digest.trim_start_matches("sha256:").chars().take(12).collect::<String>();
    let row = |name: &str| {
        [name.to_owned(), digest.clone(), size(image.size_bytes), image.used_at.to_string()]
    };
    match image.names.as_slice() {
        [] => vec![row("-")],
        names => names.iter().map(|name| row(&name.name)).collect(),
    }
}
