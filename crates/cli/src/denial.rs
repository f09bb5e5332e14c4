//! What was refused on the network, as people are told of it.

use crate::run::escaped;

/// What there is to say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Said<'a> {
    pub(crate) code: &'a str,
    pub(crate) host: &'a str,
    /// None where a name was looked up.
    pub(crate) port: Option<u16>,
    pub(crate) method: Option<&'a str>,
    pub(crate) path: Option<&'a str>,
    pub(crate) rule: Option<&'a str>,
    pub(crate) message: &'a str,
    pub(crate) next_step: &'a str,
    pub(crate) count: u64,
}

/// One line.
pub(crate) fn line(said: &Said<'_>) -> String {
    let Said { code, host, port, method, path, rule, message, next_step, count } = *said;
    let what = match (port, method, path) {
        (None, ..) => host.to_owned(),
        (Some(port), Some(method), Some(path)) => format!("{method} {host}:{port}{path}"),
        (Some(port), ..) => format!("{host}:{port}"),
    };
    let by = rule.map(|rule| format!(" (rule {rule:?})")).unwrap_or_default();
    let often = if count > 1 { format!(", {count} times") } else { String::new() };
    escaped(&format!("atoll: network: {what} refused{often}: {message}{by} [{code}]; {next_step}"))
}
