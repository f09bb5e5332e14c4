//! Commands that ask a server: where it is, how it is started, what is printed.

mod failure;

mod print;
mod start;
pub(crate) mod workspace;

pub(crate) use failure::failed;
pub(crate) use print::{Format, Reader, lines, listed, neutral, pretty, say, size, table};

use crate::env;
use crate::error::CliError;
use crate::serve::places::default_socket;
use crate::status::Status;
use atoll_client::{Client, ClientError, Endpoint};
use std::future::Future;

/// Exit status when the server refused what was asked for.
pub(crate) const EXIT_REFUSED: u8 = 1;

/// Which server is asked, and how its answer is printed.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct Remote {
    /// The server, as unix:///PATH or http://HOST:PORT [default: $ATOLL_HOST, else the socket
    /// on which `atoll serve` listens for you]
    #[arg(long, value_name = "URL")]
    host: Option<Endpoint>,
    /// Start a private server if none runs, which stays [default: $ATOLL_START_SERVER]
    #[arg(long)]
    start_server: bool,
    /// Print JSON: one object, or one line for each item
    #[arg(long)]
    pub(crate) json: bool,
}

impl Remote {
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { Format::Text }
    }

    /// Whether a server was named, or one is to be started.
    pub(crate) fn names_a_server(&self) -> bool {
        self.host.is_some() || self.start_server || env::ATOLL_HOST.get().is_some()
    }

    /// A client of the server, which is started if that was asked for.
    pub(crate) fn client(&self) -> Result<Client, CliError> {
        let endpoint = match (&self.host, env::ATOLL_HOST.get()) {
            (Some(endpoint), _) => Some(endpoint.clone()),
            (None, Some(text)) => Some(
                text.to_string_lossy()
                    .parse()
                    .map_err(|error| CliError::new("ATOLL_HOST names no server").because(error))?,
            ),
            (None, None) => None,
        };
        let is_default = endpoint.is_none();
        let endpoint = match endpoint {
            Some(endpoint) => endpoint,
            None => Endpoint::Unix(default_socket(None).ok_or_else(|| {
                CliError::new("cannot tell where the server listens")
                    .hint("set HOME, or name the server with --host or ATOLL_HOST")
            })?),
        };
        let wants_start =
            self.start_server || env::ATOLL_START_SERVER.get().is_some_and(|value| value == "1");
        if let (Endpoint::Unix(socket), true) = (&endpoint, wants_start) {
            start::make_sure(socket, is_default)?;
        }
        let key = env::ATOLL_API_KEY.get();
        let key = key.map(|key| {
            key.into_string().map_err(|_| CliError::new("ATOLL_API_KEY is no key of the API"))
        });
        Client::new(endpoint, key.transpose()?.as_deref()).map_err(failed)
    }

    /// Asks the server for one thing. What it refuses is told in the form that was asked for.
    pub(crate) fn ask<T, F: Future<Output = Result<T, ClientError>>>(
        &self,
        ask: impl FnOnce(Client) -> F,
    ) -> Result<T, CliError> {
        let client = self.client()?;
        self.wait(ask(client))?.map_err(|error| self.failed(error))
    }

    /// Waits for something that needs a runtime, which there is none of before.
    pub(crate) fn wait<T>(&self, what: impl Future<Output = T>) -> Result<T, CliError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| CliError::new("cannot wait for the server").because(error))?;
        let done = runtime.block_on(what);
        // A read of the terminal that nobody waits for any more may never end.
        runtime.shutdown_background();
        Ok(done)
    }

    /// Does something to one after the other; what fails does not keep the others from it, and is told.
    pub(crate) fn each<I, T>(
        &self,
        all: &[I],
        act: impl AsyncFn(&Client, &I) -> Result<T, ClientError>,
        done: impl Fn(T) -> Result<(), CliError>,
    ) -> Result<Status, CliError> {
        let client = self.client()?;
        let mut failed: Option<CliError> = None;
        for one in all {
            match self.wait(act(&client, one))? {
                Ok(outcome) => done(outcome)?,
                Err(error) => {
                    if let Some(earlier) = failed.replace(self.failed(error)) {
                        earlier.report();
                    }
                }
            }
        }
        failed.map_or(Ok(Status::SUCCESS), Err)
    }

    pub(crate) fn failed(&self, error: ClientError) -> CliError {
        if self.json { failure::failed_as_json(error) } else { failed(error) }
    }
}

/// Prints an answer: as JSON, or in words.
pub(crate) fn answer<T: serde::Serialize>(
    remote: &Remote,
    value: &T,
    words: impl FnOnce(&T) -> String,
) -> Result<Status, CliError> {
    let text = match remote.format() {
        Format::Json => print::line(value),
        Format::Text => words(value),
    };
    say(&text).map(|_| Status::SUCCESS)
}
