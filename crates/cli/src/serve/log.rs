//! The log of a server: one line on stderr for each thing that happens.

use tracing::level_filters::LevelFilter;

/// How a line of the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// What is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Level {
    /// Nothing
    Off,
    /// What failed here
    Error,
    /// Also what should not be
    Warn,
    /// Also what the server does
    Info,
    /// Also every request that was refused
    Debug,
    /// Also every step of it
    Trace,
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> Self {
        match level {
            Level::Off => Self::OFF,
            Level::Error => Self::ERROR,
            Level::Warn => Self::WARN,
            Level::Info => Self::INFO,
            Level::Debug => Self::DEBUG,
            Level::Trace => Self::TRACE,
        }
    }
}

/// Logs from now on.
pub(super) fn begin(format: Format, level: Level) {
    let lines = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::from(level))
        .with_writer(std::io::stderr)
        // Who closed stderr cannot be told, and must not end the server.
        .log_internal_errors(false);
    match format {
        Format::Text => lines.init(),
        Format::Json => lines.json().flatten_event(true).init(),
    }
}
