//! From documents and destinations to what people read.

use super::*;
use atoll_api::policy::{Host as Machine, Layer as Document, merge, parse};
use std::ffi::OsStr;
use std::path::Path;

const USER: &str = "[network]\nmode = 'rules'\npresets = ['python']\nallow = [\n'https://GET@api.example/repos/**',\n\
    '*.open.example',\n'tcp://db.example:5432',\n'10.0.0.0/8:443',\n]\nask = ['asked.example']\n\
    deny = ['bad.open.example']\n[network.secret.TOKEN]\nas = 'bearer'\nat = ['https://git.open.example/mine/**']\n";

fn explained(levels: &[(Level, &str)], what: &str) -> String {
    let layer = |(level, text): &(Level, &str)| {
        let document = parse(text.as_bytes()).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        let file = Some(Path::new(level.as_str()).into());
        Document { level: *level, file, document, paths: Default::default() }
    };
    let layers: Vec<Document> = levels.iter().map(layer).collect();
    let machine =
        Machine { home: None, project: "/p".into(), system: Vec::new(), trusted: Vec::new() };
    let said = merge(&layers, &machine).unwrap().policy.network;
    let network = crate::policy::network::understand(&said).unwrap();
    let (method, what) = what.split_once(' ').map_or((None, what), |(a, b)| (Some(a), b));
    let to = Destination::parse(OsStr::new(what), method, false).unwrap().unwrap();
    explain(&network, &said, &to).text()
}

#[test]
fn the_rule_that_decides_is_named() {
    let all: String = [
        "https://pypi.org/simple?x#y",
        "https://api.example/repos/x",
        "POST https://api.example/repos/x",
        "https://api.example/repos/%2e%2e/x",
        "http://api.example/repos/x",
        "http://a.open.example/",
        "wss://a.open.example/socket",
        "https://a.open.example:8443/",
        "https://bad.open.example",
        "https://git.open.example/mine/x",
        "https://git.open.example/other",
        "https://asked.example/",
        "https://Evil.Example./x",
        "db.example:5432",
        "tcp://db.example:5432",
        "tcp://a.open.example:443",
        "a.open.example:443",
        "other.example:22",
        "https://10.1.2.3/",
        "https://10.1.2.3:22/",
        "https://[fd00::1]/",
        "https://127.0.0.1:8080/x",
    ]
    .map(|what| explained(&[(Level::User, USER)], what))
    .concat();
    insta::assert_snapshot!(all, @r#"
    GET https://pypi.org/simple?x
    reach allow by "https://pypi.org" of the preset "python" (user:3)
    tls   passed as it is, with the name in it checked
    GET https://api.example/repos/x
    reach allow by "https://GET@api.example/repos/**" in network.allow (user:5)
    tls   opened, so that requests are seen
    POST https://api.example/repos/x
    reach deny  rules allow other requests to this host, but not this one [request-not-allowed]
    next  --allow-host "https://POST@api.example/repos/x", or under [network]: allow = ["https://POST@api.example/repos/x"]
    GET https://api.example/repos/%2e%2e/x
    reach deny  the path of the request can be read in more than one way: the path has an empty part, "." or "..", which servers read in different ways [ambiguous-path]
    GET http://api.example/repos/x
    reach deny  rules allow other ports of this host, but not this one [port-not-allowed]
    next  --allow-host "http://api.example", or under [network]: allow = ["http://api.example"]
    GET http://a.open.example/
    reach allow by "*.open.example" in network.allow (user:6)
    GET https://a.open.example/socket
    reach allow by "*.open.example" in network.allow (user:6)
    tls   passed as it is, with the name in it checked
    GET https://a.open.example:8443/
    reach deny  rules allow other ports of this host, but not this one [port-not-allowed]
    next  --allow-host "https://a.open.example:8443", or under [network]: allow = ["https://a.open.example:8443"]
    GET https://bad.open.example/
    reach deny  by "bad.open.example" in network.deny (user:11) [denied]
    next  change "bad.open.example" in network.deny (user:11)
    GET https://git.open.example/mine/x
    reach allow by "*.open.example" in network.allow (user:6)
    tls   opened, so that requests are seen
    gets  the secret TOKEN
    GET https://git.open.example/other
    reach allow by "*.open.example" in network.allow (user:6)
    tls   opened, so that requests are seen
    GET https://asked.example/
    reach ask   by "asked.example" in network.ask (user:10)
    tls   passed as it is, with the name in it checked
    next  somebody is asked when it is tried
    GET https://evil.example/x
    reach deny  no rule allows it [not-allowed]
    next  --allow-host "https://evil.example", or under [network]: allow = ["https://evil.example"]
    db.example:5432
    reach allow by "tcp://db.example:5432" in network.allow (user:7)
    tcp://db.example:5432
    reach allow by "tcp://db.example:5432" in network.allow (user:7)
    tcp://a.open.example:443
    reach deny  rules allow another protocol at this port of this host [protocol-not-allowed]
    next  --allow-host "tcp://a.open.example:443", or under [network]: allow = ["tcp://a.open.example:443"]
    a.open.example:443
    reach allow by "*.open.example" in network.allow (user:6)
    tls   passed as it is, with the name in it checked
    other.example:22
    reach deny  no rule allows it [not-allowed]
    next  --allow-host "tcp://other.example:22", or under [network]: allow = ["tcp://other.example:22"]
    GET https://10.1.2.3/
    reach allow by "10.0.0.0/8:443" in network.allow (user:8)
    tls   passed as it is, with the name in it checked
    GET https://10.1.2.3:22/
    reach deny  rules allow other ports of this host, but not this one [port-not-allowed]
    next  --allow-host "https://10.1.2.3:22", or under [network]: allow = ["https://10.1.2.3:22"]
    GET https://[fd00::1]/
    reach deny  an address was used instead of a name, and no rule allows its network [address-not-allowed]
    next  --allow-host "https://[fd00::1]", or under [network]: allow = ["https://[fd00::1]"]
    GET https://127.0.0.1:8080/x
    reach deny  an address was used instead of a name, and no rule allows its network [address-not-allowed]
    next  --allow-host "https://127.0.0.1:8080", or under [network]: allow = ["https://127.0.0.1:8080"]
    "#);
}

#[test]
fn a_project_that_keeps_others_is_named() {
    let keeps = (Level::Project, "network.allow = ['a.open.example']");
    let denies = (Level::Project, "network.deny = ['*.open.example']");
    let off = (Level::Project, "network.mode = 'none'");
    let all = [keeps, denies, off]
        .map(|project| explained(&[(Level::User, USER), project], "https://b.open.example/"))
        .concat();
    insta::assert_snapshot!(all, @r#"
    GET https://b.open.example/
    reach deny  no rule allows it; the project's own file keeps others only (project:1) [not-allowed]
    next  --allow-host "https://b.open.example"; or change project:1
    GET https://b.open.example/
    reach deny  by "*.open.example" in network.deny (project:1) [denied]
    next  change "*.open.example" in network.deny (project:1)
    GET https://b.open.example/
    reach deny  there is no network (project:1) [network-none]
    next  --net rules, or network.mode = "rules"
    "#);
    let unsaid = explained(&[], "https://a.example/");
    insta::assert_snapshot!(unsaid, @r#"
    GET https://a.example/
    reach deny  there is no network (built in) [network-none]
    next  --allow-host "https://a.example", or under [network]: mode = "rules" and allow = ["https://a.example"]
    "#);
}

/// What is suggested is tried: with it, the same destination is allowed.
#[test]
fn the_next_step_is_one() {
    for what in [
        "https://evil.example/x",
        "PUT https://api.example/repos/x",
        "http://api.example/y",
        "https://a.open.example:8443/",
        "other.example:22",
        "other.example:80",
        "tcp://a.open.example:443",
        "https://[2606:4700::1111]/",
        "https://10.1.2.3:22/",
        "https://169.254.169.254/",
    ] {
        let before = explained(&[(Level::User, USER)], what);
        let rule = before.split("--allow-host \"").nth(1).and_then(|rest| rest.split('"').next());
        let flag = format!("network.allow = ['{}']", rule.unwrap_or_else(|| panic!("{before}")));
        let after = explained(&[(Level::User, USER), (Level::Flag, &flag)], what);
        assert!(before.contains("reach deny") && after.contains("reach allow"), "{before}{after}");
    }
}

#[test]
fn destinations_are_told_from_paths() {
    let parsed = |text: &str, is_file| Destination::parse(OsStr::new(text), None, is_file);
    for path in [
        "src/main.rs",
        "pypi.org",
        "a:b",
        "a/b:80",
        "/x:1",
        "a:80/x",
        "a:0",
        "a:99999",
        ":80",
        "",
        "a b:1",
        "C:",
    ] {
        assert!(parsed(path, false).unwrap().is_none(), "{path}");
    }
    assert!(parsed("a:80", true).unwrap().is_none(), "a file of that name");
    for (text, shown) in [
        ("a:80", "a:80"),
        ("https://A.example.", "https://a.example/"),
        ("https://a.example?q", "https://a.example/?q"),
        ("http://a.example:80/x", "http://a.example/x"),
        ("tcp://[::1]:22", "tcp://[::1]:22"),
        ("[::1]:22", "[::1]:22"),
    ] {
        assert_eq!(parsed(text, false).unwrap().unwrap().to_string(), shown);
    }
    for wrong in [
        "ftp://a.example",
        "tcp://a.example",
        "https://",
        "https://u:p@a.example/",
        "https://a..b/",
        "https://a.example:0/",
        "https://[::1",
    ] {
        assert!(parsed(wrong, false).is_err(), "{wrong}");
    }
    assert!(Destination::parse(OsStr::new("https://a"), Some("get"), false).is_err());
}
