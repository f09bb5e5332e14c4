//! `atoll expose`.

use super::wanted::ms;
use crate::error::CliError;
use crate::remote::{self, Remote};
use crate::status::Status;
use atoll_api::policy::parse_duration;
use atoll_api::ports::{ExposePort, Visibility};
use std::time::Duration;

/// Give a port of a sandbox an address, and print it
///
/// Whoever has the address can reach the port, and a request wakes the sandbox. Without --public
/// the address has a token in it, and is a secret.
///
/// Example: atoll expose web 5173
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Its id or name
    sandbox: String,
    /// The port
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Whoever knows the sandbox's id can reach it: no token
    #[arg(long, conflicts_with = "remove")]
    public: bool,
    /// Take the address back
    #[arg(long)]
    remove: bool,
    /// Take it back after this time, as in 2h
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "remove")]
    expires: Option<Duration>,
    /// Print the address by path, for where names below the domain do not resolve
    #[arg(long, conflicts_with = "remove")]
    by_path: bool,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) fn run(args: Args) -> Result<Status, CliError> {
    let (sandbox, port) = (args.sandbox.as_str(), args.port);
    if args.remove {
        return args
            .remote
            .ask(async |client| client.unexpose_port(sandbox, port).await)
            .map(|()| Status::SUCCESS);
    }
    let wanted = ExposePort {
        visibility: if args.public { Visibility::Public } else { Visibility::Private },
        expires_in_ms: args.expires.map(ms),
    };
    let exposed =
        args.remote.ask(async |client| client.expose_port(sandbox, port, &wanted).await)?;
    remote::answer(&args.remote, &exposed, |preview| {
        format!("{}\n", if args.by_path { &preview.path_url } else { &preview.url })
    })
}
