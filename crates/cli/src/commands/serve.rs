//! `atoll serve`.

use crate::error::CliError;
use crate::serve::{self, Format, Level};
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
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let Args { state, socket, listen, print_key, sandboxes_max, log_format, log_level, detached } =
        args;
    if detached {
        // One that leads a session already has none to leave.
        rustix::process::setsid().ok();
    }
    serve::run(serve::Wanted {
        state,
        socket,
        listen,
        first_key: if print_key { serve::FirstKey::Print } else { serve::FirstKey::Keep },
        sandboxes_max: sandboxes_max.map(NonZeroUsize::get),
        log_format,
        log_level,
    })
}
