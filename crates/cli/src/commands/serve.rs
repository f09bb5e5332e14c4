//! `atoll serve`.

use crate::env;
use crate::error::CliError;
use crate::serve::{self, DnsName, Format, Level};
use crate::status::Status;
use atoll_api::policy::{Bytes, UpstreamProxy};
use atoll_engine::archives::Place;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Keep sandboxes that outlive a command, and serve the HTTP API
///
/// Runs in the foreground until SIGTERM, SIGINT or SIGHUP; a second one ends it at once. Sandboxes
/// go on without it, and the next server of the same state directory finds them again.
///
/// Example: atoll serve --listen 127.0.0.1:7070
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where everything is kept [default: /var/lib/atoll for root, else
    /// $XDG_STATE_HOME/atoll/server]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Unix socket for you and root alone [default: /run/atoll/atoll.sock for root, else
    /// $XDG_RUNTIME_DIR/atoll/atoll.sock, else atoll.sock in the state directory]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// TCP address too, where every request needs a key; can be repeated
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Vec<SocketAddr>,
    /// Print the first key instead of writing it to the file first-key in the state directory
    ///
    /// One of scope admin is made where --listen is given and there is no key yet.
    #[arg(long, requires = "listen")]
    print_key: bool,
    /// A DNS name by which clients come over TCP, beside localhost and addresses; can be repeated
    ///
    /// Whoever asks by another name was led here by somebody else's, and is refused.
    #[arg(long, value_name = "NAME")]
    server_name: Vec<DnsName>,
    /// Most sandboxes at once, in every state [default: 1000, or what descriptors are enough for]
    #[arg(long, value_name = "COUNT")]
    sandboxes_max: Option<NonZeroUsize>,
    /// A proxy through which sandboxes reach what they may: http://HOST:PORT, or socks5://
    ///
    /// Names are looked up by it. Else ATOLL_UPSTREAM_PROXY says it, which is the place for a URL
    /// with USER:PASSWORD@ in it: arguments can be seen by every user of the machine.
    #[arg(long, value_name = "URL")]
    upstream_proxy: Option<OsString>,
    /// A file with defaults and caps of sandboxes, limits of builds, and budgets: see docs/serve.md
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How the log on stderr is written
    #[arg(long, value_enum, default_value = "text")]
    log_format: Format,
    /// What is logged
    #[arg(long, value_enum, default_value = "info")]
    log_level: Level,
    /// Leave the terminal and the session of whoever starts it
    #[arg(long, hide = true)]
    detached: bool,
    #[command(flatten)]
    images: Images,
    #[command(flatten)]
    archives: Archives,
    #[command(flatten)]
    previews: Previews,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Archives")]
struct Archives {
    /// Where snapshots are archived: file:///PATH, or s3://BUCKET/PREFIX
    ///
    /// Who we are to a bucket is said by AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if there is
    /// one, AWS_SESSION_TOKEN; where it is by AWS_REGION. They are no arguments, since those can be
    /// seen by every user of the machine.
    #[arg(long, value_name = "URL")]
    archive: Option<Place>,
    /// A store that speaks S3 and is not Amazon's, as in https://minio.example:9000
    #[arg(long, value_name = "URL", requires = "archive", value_parser = endpoint)]
    archive_endpoint: Option<String>,
    /// File with the key that archives are encrypted by: 64 hexadecimal digits, for its owner's eyes
    /// alone
    ///
    /// Whoever loses it loses all archives that were made with it.
    #[arg(long, value_name = "FILE", requires = "archive")]
    archive_key_file: Option<PathBuf>,
}

/// The address of a store.
fn endpoint(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_host = rest.is_some_and(|rest| {
        let host = rest.trim_end_matches('/');
        !host.is_empty() && !host.contains(['/', '@', '?', '#'])
    });
    if is_host {
        Ok(text.to_owned())
    } else {
        Err("write https://HOST or https://HOST:PORT".to_owned())
    }
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Images")]
struct Images {
    /// File with names and passwords for registries, as `docker login` writes it
    ///
    /// Programs that such a file names are not run.
    #[arg(long, value_name = "FILE")]
    registry_config: Option<PathBuf>,
    /// Most that images may take on the disk, as in 50GiB [default: what is free]
    #[arg(long, value_name = "SIZE")]
    images_max: Option<Bytes>,
    /// What images leave free of the disk [default: 512MiB, or a twentieth of a small disk]
    #[arg(long, value_name = "SIZE")]
    images_leave: Option<Bytes>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Previews")]
struct Previews {
    /// TCP address for previews of exposed ports, which are then served there alone; can be
    /// repeated [default: as --listen]
    #[arg(long, value_name = "ADDRESS:PORT")]
    preview_listen: Vec<SocketAddr>,
    /// Domain below which each preview has a name of its own: a wildcard record has to lead here
    ///
    /// Below localhost browsers find previews of this machine without any record.
    #[arg(long, value_name = "NAME", default_value = "localhost")]
    preview_domain: DnsName,
    /// Port by which clients come, where that is a proxy's [default: the port that is listened on]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    preview_port: Option<u16>,
    /// Clients come by HTTPS, to a proxy in front of this server; only addresses change by it
    #[arg(long)]
    preview_https: bool,
}

/// The proxy that is named. What is wrong with it is said without it: there may be a password in it.
fn proxy(flag: Option<OsString>) -> Result<Option<UpstreamProxy>, CliError> {
    let from = if flag.is_some() { "--upstream-proxy" } else { env::ATOLL_UPSTREAM_PROXY.name };
    let Some(text) = flag.or_else(|| env::ATOLL_UPSTREAM_PROXY.get()) else { return Ok(None) };
    let parsed = text.to_str().and_then(|text| text.parse().ok());
    let wrong = || {
        CliError::new(format!("what {from} says is no proxy"))
            .hint("write http://HOST:PORT or socks5://HOST:PORT, with USER:PASSWORD@ before the host if need be")
    };
    parsed.map(Some).ok_or_else(wrong)
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let Args { state, socket, listen, print_key, sandboxes_max, upstream_proxy, .. } = args;
    let Args {
        config,
        server_name,
        images,
        archives,
        previews,
        log_format,
        log_level,
        detached,
        ..
    } = args;
    if detached {
        // One that leads a session already has none to leave.
        rustix::process::setsid().ok();
    }
    serve::run(serve::Wanted {
        state,
        socket,
        listen,
        names: server_name,
        previews: serve::Previewing {
            listen: previews.preview_listen,
            domain: previews.preview_domain,
            port: previews.preview_port,
            is_https: previews.preview_https,
        },
        first_key: if print_key { serve::FirstKey::Print } else { serve::FirstKey::Keep },
        sandboxes_max: sandboxes_max.map(NonZeroUsize::get),
        proxy: proxy(upstream_proxy)?,
        config,
        images: serve::images::Wanted {
            logins: images.registry_config,
            bytes_max: images.images_max.map(|size| size.0),
            free_bytes: images.images_leave.map(|size| size.0),
        },
        archives: serve::archives::Wanted {
            place: archives.archive,
            key_file: archives.archive_key_file,
            endpoint: archives.archive_endpoint,
        },
        log_format,
        log_level,
    })
}
