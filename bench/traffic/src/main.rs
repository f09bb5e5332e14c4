//! What goes through a gateway while it is measured, and the cheapest thing that it could go
//! through.
//!
//! | role | is |
//! |---|---|
//! | `traffic serve` | a small internet: names, and the servers behind them |
//! | `traffic load` | who connects, sends and waits; it takes an order a line, and answers with microseconds |
//! | `traffic relay` | accepts, connects and splices: the floor of everything that relays |
//!
//! What is passed through begins like TLS and is plain from there on, since nobody between the
//! two sides can tell: so it is the way that is measured, and not the ciphers at its ends.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it answers there, to the program that measures"
)]

mod load;
mod relay;
mod serve;

use anyhow::{Context as _, Result, bail};
use std::process::ExitCode;

/// The name under which the server of plain bytes is reached.
const BULK: &str = "bulk.test";
/// The name under which requests are served.
const SITE: &str = "site.test";

/// Asks for bytes to be sent, and says how many.
const DOWNLOAD: u8 = b'd';
/// The same for bytes to be received, which is said when all are there.
const UPLOAD: u8 = b'u';
/// Asks for one byte.
const PING: u8 = b'p';

/// Bytes that are sent at once, and received.
const PIECE: usize = 256 << 10;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("traffic: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("no runtime")?;
    match words[..] {
        ["serve", certificate] => runtime.block_on(serve::run(certificate)),
        ["relay", port] => relay::run(port.parse().context("a port")?),
        ["load", bulk, site] => runtime.block_on(load::run(bulk, site, None)),
        ["load", bulk, site, proxy] => runtime.block_on(load::run(bulk, site, Some(proxy))),
        _ => bail!("serve CERTIFICATE | relay PORT | load BULK SITE [PROXY]"),
    }
}
