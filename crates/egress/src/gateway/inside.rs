//! What a sandbox is made with so that programs inside come to the gateway.

use super::{DNS, PROXY_PORT};
use crate::policy::Rule;

/// Ports at which a reason is told where not all of them can be captured.
const USUAL_PORTS: [u16; 9] = [80, 443, 22, 25, 3306, 5432, 6379, 8080, 8443];

/// Variables by which programs learn of a proxy; no `ALL_PROXY`, which some take for one of SOCKS.
const PROXY_VARIABLES: [&str; 4] = ["HTTPS_PROXY", "HTTP_PROXY", "http_proxy", "https_proxy"];

/// Where no proxy is used: the sandbox's own loopback, and nothing else.
const NO_PROXY_VARIABLES: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// Variables that tell programs of the gateway as a proxy, for those that want one.
pub fn proxy_variables() -> impl Iterator<Item = (String, String)> {
    let proxy = format!("http://{DNS}:{PROXY_PORT}");
    let proxy = PROXY_VARIABLES.map(|name| (name.to_owned(), proxy.clone()));
    let direct = NO_PROXY_VARIABLES.map(|name| (name.to_owned(), "localhost,127.0.0.1,::1".into()));
    proxy.into_iter().chain(direct)
}

/// Ports to listen at on a kernel that cannot capture all of them: those that rules name, the
/// proxy's, and the usual ones. Each is there once, and those of rules come first.
pub fn ports<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Vec<u16> {
    let named = rules.into_iter().flat_map(Rule::ports);
    let mut ports = Vec::new();
    for port in named.chain([PROXY_PORT]).chain(USUAL_PORTS) {
        if !ports.contains(&port) {
            ports.push(port);
        }
    }
    ports
}
