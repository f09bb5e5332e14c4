//! What becomes of an error of the server's, or of the way to it.

use super::EXIT_REFUSED;
use super::print::neutral;
use crate::error::CliError;
use atoll_api::error::{ErrorBody, Retry};
use atoll_client::ClientError;
use std::error::Error as _;

/// In words: the message, its code, what to do now.
pub(crate) fn failed(error: ClientError) -> CliError {
    let message = match &error {
        // It may quote what is inside of a sandbox.
        ClientError::Api(error) => format!("{} ({})", neutral(&error.message), error.code.as_str()),
        other => other.to_string(),
    };
    let told = CliError::new(message);
    let told = match error.source() {
        Some(source) => told.because(source.to_string()),
        None => told,
    };
    let is_unknown = error.is_unknown();
    match error {
        ClientError::Api(error) => {
            let told = told.hint(neutral(&error.next_step)).exit_with(EXIT_REFUSED);
            match error.retry {
                Retry::After { after_ms } => told.hint(format!("ask again after {after_ms} ms")),
                Retry::Safe | Retry::Unsafe => told,
            }
        }
        ClientError::NoServer { .. } => told.hint(
            "start one with `atoll serve`, or let this command start one with --start-server",
        ),
        _ if is_unknown => {
            told.hint("it is not known whether it was done: look before asking again")
        }
        _ => told,
    }
}

/// The error as the API has it, where it comes from the server.
pub(super) fn failed_as_json(error: ClientError) -> CliError {
    match error {
        ClientError::Api(error) => {
            CliError::json(super::print::line(&ErrorBody { error: *error })).exit_with(EXIT_REFUSED)
        }
        other => failed(other),
    }
}
