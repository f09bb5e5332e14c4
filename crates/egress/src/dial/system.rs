//! Where a machine looks names up, as its files say.

use crate::control::Resolver;
use crate::name::Name;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// The port of DNS.
const PORT: u16 = 53;

/// Most servers that are asked, as resolv.conf(5) has it.
const SERVERS_MAX: usize = 3;

/// Most names of a hosts file that are taken over.
const HOSTS_MAX: usize = 512;

impl Resolver {
    /// Understands the text of `/etc/resolv.conf` and of `/etc/hosts`; lines that are not
    /// understood count as not written, as with every other program.
    ///
    /// Names of the machine itself stay out: inside, `localhost` is the sandbox.
    ///
    /// Source: resolv.conf(5), hosts(5).
    #[must_use]
    pub fn parse(resolv_conf: &str, hosts: &str) -> Self {
        let mut servers: Vec<SocketAddr> =
            resolv_conf.lines().filter_map(server).take(SERVERS_MAX).collect();
        if servers.is_empty() {
            servers.push((Ipv4Addr::LOCALHOST, PORT).into());
        }
        let mut known: Vec<(Name, Vec<IpAddr>)> = Vec::new();
        for (name, address) in hosts.lines().flat_map(host) {
            match known.iter().position(|(known, _)| *known == name) {
                Some(place) => known[place].1.push(address),
                None if known.len() < HOSTS_MAX => known.push((name, vec![address])),
                None => {}
            }
        }
        Self { servers, hosts: known }
    }
}

fn server(line: &str) -> Option<SocketAddr> {
    let rest = line.strip_prefix("nameserver")?;
    let text = rest.starts_with([' ', '\t']).then(|| rest.split_whitespace().next())??;
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(SocketAddr::new(address, PORT));
    }
    // One of a link names it by its number; a name would have to be looked up here.
    let (address, scope) = text.split_once('%')?;
    let address: Ipv6Addr = address.parse().ok()?;
    Some(SocketAddrV6::new(address, PORT, 0, scope.parse().ok()?).into())
}

fn host(line: &str) -> Vec<(Name, IpAddr)> {
    let line = line.split('#').next().unwrap_or_default();
    let mut words = line.split_whitespace();
    let Some(address) = words.next().and_then(|word| word.parse::<IpAddr>().ok()) else {
        return Vec::new();
    };
    let is_outside =
        |name: &Name| name.as_str() != "localhost" && !name.as_str().ends_with(".localhost");
    let names = words.filter_map(|word| word.parse().ok()).filter(is_outside);
    names.map(|name| (name, address)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(conf: &str, hosts: &str) -> (Vec<String>, Vec<(String, Vec<String>)>) {
        let Resolver { servers, hosts } = Resolver::parse(conf, hosts);
        let text = |addresses: Vec<IpAddr>| addresses.iter().map(ToString::to_string).collect();
        (
            servers.iter().map(ToString::to_string).collect(),
            hosts.into_iter().map(|(name, known)| (name.to_string(), text(known))).collect(),
        )
    }

    #[test]
    fn files_of_a_machine() {
        let (servers, hosts) = parsed(
            "# made by somebody\nsearch corp.example\nnameserver 10.0.0.53\nnameserver\t::1\n\
             nameserver fe80::1%2\nnameserver 9.9.9.9\nnameservers 1.1.1.1\noptions edns0\n",
            "127.0.0.1 localhost me.localhost\n::1 localhost ip6-localhost\n\
             10.0.0.7\tdb.corp db # the old one\nfd00::7 db\nnobody\n300.1.1.1 x\n10.0.0.8 a_b -c\n",
        );
        assert_eq!(servers, ["10.0.0.53:53", "[::1]:53", "[fe80::1%2]:53"]);
        let known = |name: &str| hosts.iter().find(|(known, _)| known == name).map(|(_, to)| to);
        assert_eq!(known("db"), Some(&vec!["10.0.0.7".to_owned(), "fd00::7".to_owned()]));
        assert_eq!(known("db.corp"), Some(&vec!["10.0.0.7".to_owned()]));
        assert_eq!(known("a_b"), Some(&vec!["10.0.0.8".to_owned()]));
        assert_eq!(hosts.len(), 4, "{hosts:?}");
    }

    #[test]
    fn without_files_it_is_the_machine_itself() {
        assert_eq!(parsed("", ""), (vec!["127.0.0.1:53".to_owned()], Vec::new()));
    }
}
