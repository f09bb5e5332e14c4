//! What comes over a connection until it is over, well or not.

use super::connection::Connection;
use super::error::{Cut, GuestError, Known};
use super::hearing::Said;

/// The frames after an answer.
#[derive(Debug)]
pub(super) struct Flow {
    /// None once it is over.
    connection: Option<Connection>,
    is_lost: bool,
}

impl Flow {
    pub(super) fn new(mut connection: Connection) -> Self {
        connection.hearing.is_supervised = true;
        Self { connection: Some(connection), is_lost: false }
    }

    /// Waits for the next frame; none once it was over well, and an error at every
    /// call where it was not. Loses nothing where this is dropped.
    pub(super) async fn next(&mut self) -> Result<Option<Said>, GuestError> {
        let Some(connection) = &mut self.connection else {
            return if self.is_lost { Err(ended_early()) } else { Ok(None) };
        };
        match connection.next().await {
            Ok(said) => Ok(Some(said)),
            Err(error) => self.fail(error),
        }
    }

    /// It was over well.
    pub(super) fn finish(&mut self) {
        self.connection = None;
    }

    /// It was not.
    pub(super) fn fail<T>(&mut self, error: GuestError) -> Result<T, GuestError> {
        (self.connection, self.is_lost) = (None, true);
        Err(error)
    }
}

/// A stream is over, and its end was not told.
pub(super) fn ended_early() -> GuestError {
    GuestError::Lost { known: Known::Answered, cut: Cut::Ended }
}
