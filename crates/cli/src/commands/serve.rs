//! `atoll serve`.

use crate::error::CliError;
use crate::serve::{self, DnsName, Format, Level};
use crate::status::Status;
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
    previews: Previews,
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

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let Args { state, socket, listen, print_key, sandboxes_max, .. } = args;
    let Args { server_name, previews, log_format, log_level, detached, .. } = args;
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
        log_format,
        log_level,
    })
}
