//! The proxies that the user's environment names.

use atoll_egress::control::{Sensitive, Via};
use hyper::Uri;

/// By which proxy a registry is reached.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    https: Via,
    http: Via,
    /// Hosts that are reached without one.
    without: Vec<String>,
}

impl Proxies {
    /// Reads what `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` say.
    ///
    /// # Errors
    /// The text of the one that is no proxy's address.
    pub fn parse(https: &str, http: &str, without: &str) -> Result<Self, String> {
        let without = without.split([',', ' ']).map(|host| host.trim().to_ascii_lowercase());
        Ok(Self {
            https: via(https)?,
            http: via(http)?,
            without: without.filter(|host| !host.is_empty()).collect(),
        })
    }

    pub(super) fn via(&self, host: &str, is_plain: bool) -> Via {
        let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
        let matches = |one: &String| {
            let name = match one.rsplit_once(':') {
                Some((name, port)) if !name.contains(':') && port.parse::<u16>().is_ok() => name,
                _ => one.as_str(),
            };
            let name = name.trim_start_matches("*.").trim_start_matches('.');
            one == "*" || host == name || host.strip_suffix(name).is_some_and(|h| h.ends_with('.'))
        };
        if self.without.iter().any(matches) {
            return Via::Direct;
        }
        if is_plain { self.http.clone() } else { self.https.clone() }
    }
}

fn via(text: &str) -> Result<Via, String> {
    if text.is_empty() {
        return Ok(Via::Direct);
    }
    let bad = || text.to_owned();
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let uri: Uri = whole.parse().map_err(|_| bad())?;
    let authority = uri.authority().ok_or_else(bad)?.as_str();
    let (login, _) = authority.rsplit_once('@').map_or((None, authority), |(l, h)| (Some(l), h));
    let decode = |login: &str| {
        let plain = percent_encoding::percent_decode_str(login).decode_utf8_lossy().into_owned();
        Sensitive::from(plain)
    };
    let (host, login) = (uri.host().ok_or_else(bad)?.to_owned(), login.map(decode));
    match uri.scheme_str() {
        Some("http") => Ok(Via::Http { host, port: uri.port_u16().unwrap_or(80), login }),
        Some("socks5" | "socks5h") => {
            Ok(Via::Socks5 { host, port: uri.port_u16().unwrap_or(1080), login })
        }
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_for_who_is_not_left_out() {
        let proxies =
            Proxies::parse("http://p.example:3128", "", "localhost,.in.example, 10.0.0.7").unwrap();
        let is_direct = |host: &str| proxies.via(host, false) == Via::Direct;
        for host in ["localhost", "a.in.example", "in.example", "10.0.0.7", "LOCALHOST"] {
            assert!(is_direct(host), "{host}");
        }
        for host in ["example", "notin.example", "10.0.0.70"] {
            assert!(!is_direct(host), "{host}");
        }
        assert_eq!(proxies.via("example", true), Via::Direct);
        let all = Proxies::parse("socks5://u:p%40@[::1]:9", "p:1", "*").unwrap();
        assert_eq!(all.via("x", false), Via::Direct);
        for bad in ["https://p:1", "ftp://p", "http://"] {
            assert!(Proxies::parse(bad, "", "").is_err(), "{bad}");
        }
    }
}
