//! What of this machine the gateway works with: where names are looked up, whom hosts are vouched for
//! by, and through what they are reached.

use crate::env;
use crate::error::CliError;
use atoll_api::policy::UpstreamProxy;
use atoll_egress::control::{Resolver, Sensitive, Via};
use atoll_jail::host::BUNDLES;
use std::fs;
use std::net::{IpAddr, SocketAddr};

/// Certificates of authorities in PEM; none where there is no such file.
pub(crate) fn roots() -> Vec<u8> {
    let known = || BUNDLES.iter().find_map(|path| fs::read(path).ok());
    named_roots().or_else(known).unwrap_or_default()
}

/// Those that the user has named in place of the system's.
pub(crate) fn named_roots() -> Option<Vec<u8>> {
    env::SSL_CERT_FILE.path().and_then(|path| fs::read(path).ok())
}

/// Where names are looked up on this machine (resolv.conf(5), hosts(5)).
///
/// # Errors
///
/// The user named servers that are none.
pub(crate) fn resolver() -> Result<Resolver, CliError> {
    let read = |path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let conf = read("/etc/resolv.conf").unwrap_or_default();
    let hosts = read("/etc/hosts").unwrap_or_default();
    let resolver = Resolver::parse(&conf, &hosts);
    let Some(named) = env::ATOLL_DNS.get() else { return Ok(resolver) };
    let servers = named.to_string_lossy();
    let servers = servers.split(',').map(|text| server(text.trim())).collect::<Result<_, _>>()?;
    Ok(Resolver { servers, ..resolver })
}

fn server(text: &str) -> Result<SocketAddr, CliError> {
    let alone = || text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 53));
    text.parse().or_else(|_| alone()).map_err(|_| {
        CliError::new(format!("{text:?} in {} is no DNS server", env::ATOLL_DNS.name))
            .hint("write addresses, as in 10.0.0.53 or [fd00::53]:5353, with commas between")
    })
}

/// How everything outside is reached: as it is, or through a proxy.
pub(crate) fn via(proxy: Option<&UpstreamProxy>) -> Via {
    let Some(UpstreamProxy { is_socks5, host, port, login }) = proxy else { return Via::Direct };
    let (host, port) = (host.clone(), *port);
    let login = login.clone().map(Sensitive::from);
    match is_socks5 {
        true => Via::Socks5 { host, port, login },
        false => Via::Http { host, port, login },
    }
}
