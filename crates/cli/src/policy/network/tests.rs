//! From documents to decisions.

use super::*;
use atoll_api::policy::{Host, Layer as Document, Merged, merge, parse};
use atoll_egress::policy::{Connection, Host as Asked, Request};
use proptest::prelude::*;
use std::path::Path;

fn merged(levels: &[(Level, &str)]) -> Merged {
    let layer = |(level, text): &(Level, &str)| {
        let document = parse(text.as_bytes()).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        let file = Some(Path::new(level.as_str()).into());
        Document { level: *level, file, document, paths: Default::default() }
    };
    let layers: Vec<Document> = levels.iter().map(layer).collect();
    let host = Host { home: None, project: "/p".into(), system: Vec::new(), trusted: Vec::new() };
    merge(&layers, &host).unwrap_or_else(|errors| panic!("{}", join(&errors)))
}

fn join<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn network(levels: &[(Level, &str)]) -> Network {
    understand(&merged(levels).policy.network).unwrap_or_else(|errors| panic!("{}", join(&errors)))
}

fn errors(text: &str) -> String {
    join(&understand(&merged(&[(Level::User, text)]).policy.network).unwrap_err())
}

/// What becomes of a request over TLS.
fn asked(network: &Network, host: &str) -> Action {
    let name = host.parse().unwrap();
    let request = Request { method: "GET", path: "/" };
    network.policy().request(Asked::Name(&name), 443, true, request).action
}

#[test]
fn nothing_is_reached_where_nothing_allows_it() {
    for text in [
        "",
        "network.mode = 'none'\nnetwork.allow = ['*']",
        "network.allow = ['*']",
        "network.mode = 'rules'",
        "network.mode = 'rules'\nnetwork.allow = []",
        "network.mode = 'rules'\nnetwork.presets = []\nnetwork.deny = ['b.example']",
    ] {
        assert_eq!(asked(&network(&[(Level::User, text)]), "a.example"), Action::Deny, "{text}");
    }
    let control = network(&[(Level::User, "network.mode = 'rules'\nnetwork.allow = ['*']")]);
    assert_eq!(asked(&control, "a.example"), Action::Allow);
}

#[test]
fn levels_of_the_user_add_up_and_a_project_takes_away() {
    let user = "[network]\nmode = 'rules'\npresets = ['python']\nallow = ['*.example']\nask = ['asked.example']";
    let file = "network.deny = ['bad.example']";
    let levels = |project: &str, flags: &str| {
        let levels = [
            (Level::User, user),
            (Level::PolicyFile, file),
            (Level::Project, project),
            (Level::Flag, flags),
        ];
        let network = network(&levels);
        ["pypi.org", "a.example", "b.example", "bad.example", "asked.example", "c.test"]
            .map(|host| match asked(&network, host) {
                Action::Allow => 'A',
                Action::Ask => '?',
                Action::Deny => '-',
            })
            .iter()
            .collect::<String>()
    };
    for (project, flags, answers) in [
        ("", "", "AAA-?-"),
        ("network.deny = ['a.example']", "", "A-A-?-"),
        ("network.ask = ['a.example']", "", "A?A-?-"),
        ("network.allow = ['a.example', 'bad.example', 'asked.example', 'c.test']", "", "-A--?-"),
        ("network.presets = ['python', 'node']", "", "A-----"),
        ("network.allow = []", "", "------"),
        ("network.mode = 'none'", "", "------"),
        // Flags come last.
        ("network.allow = ['a.example']", "network.allow = ['c.test']", "-A---A"),
        ("network.deny = ['*.example']", "network.allow = ['a.example']", "AA----"),
        ("network.mode = 'none'", "network.mode = 'rules'", "AAA-?-"),
        ("", "network.mode = 'none'", "------"),
    ] {
        assert_eq!(levels(project, flags), answers, "{project} / {flags}");
    }
}

#[test]
fn a_decision_leads_back_to_its_line() {
    let network = network(&[
        (Level::User, "[network]\nmode = 'rules'\npresets = ['python']\nallow = [\n'*',\n]"),
        (Level::Project, "network.deny = ['bad.example']"),
    ]);
    let told = |host: &str| {
        let name = host.parse().unwrap();
        let verdict = network.policy().tls(Asked::Name(&name), 443);
        let rule = network.rule(verdict.rule.unwrap()).unwrap();
        format!("{} {:?} {} {}", rule.rule, rule.preset, rule.list.key(), rule.origin)
    };
    insta::assert_snapshot!(["pypi.org", "a.example", "bad.example"].map(told).join("\n"), @r#"
    https://pypi.org Some("python") network.presets user:3
    * None network.allow user:5
    bad.example None network.deny project:1
    "#);
}

#[test]
fn what_does_nothing_is_told() {
    let warned = |levels: &[(Level, &str)]| {
        let said = merged(levels).policy.network;
        join(&warnings(&understand(&said).unwrap(), &said))
    };
    let user = "[network]\nmode = 'rules'\npresets = ['node']\nallow = [\n'*',\n'a.example',\n'python',\n'b.example',\n\
                'b.example',\n'https://c.example',\n]\ndeny = ['a.example', 'nodejs.org']\n\
                [network.secret.A]\nas = 'bearer'\nat = ['https://pypi.org', 'https://gone.example:8443']\n\
                [network.secret.B]\nfile = '/x'\n";
    let project = "[network]\nallow = [\n'c.example:443',\n'c.example:22',\n'*.d.example',\n]\ndeny = ['e.example']";
    insta::assert_snapshot!(warned(&[(Level::User, user), (Level::Project, project)]), @r#"
    user:6: network.allow: "a.example" never decides: network.deny "a.example" (user:12) does
    project:4: network.allow: "c.example:22" is allowed by no rule of the user's, so it stays refused
    user:5: network.allow: "*" lets every host be reached, so anything can be sent out
    user:7: network.allow: "python" is a host here; a preset is named by network.presets or --preset
    user:13: network.secret: "https://gone.example:8443" may get the secret A, but no rule lets it be reached
    user:16: network.secret: "B" is readable inside, so whatever runs there can send it to any host that it reaches
    "#);
    let off = "network.presets = ['node']";
    insta::assert_snapshot!(warned(&[(Level::User, off)]), @r#"user:1: network.presets: "node" does nothing while network.mode is "none"; write mode = "rules" beside it"#);
    let flags = (Level::Flag, "network.mode = 'none'");
    assert_eq!(warned(&[(Level::User, off), flags]), "", "somebody said so");
}

#[test]
fn what_is_not_understood_is_told_with_its_place() {
    let text = "[network]\npresets = ['pyhton']\nallow = [\n'htps://a.example',\n'get@a.example',\n'.a.example',\n\
                '*a.example',\n' a.example',\n'tcp://a.example',\n'10.0.0.1/8',\n'a.example:0',\n'',\n'wss://a.example/x',\n\
                'a b',\n'ftp://a.example']\ndeny = ['a..b']\nstand_in = '11.0.0.0/30'\n\
                [network.secret.A]\nas = 'bearer'\nat = [\n'api.example',\n'*.example',\n'http://b.example',\n'tcp://c.example:1']\n\
                [network.secret.B]\nas = 'header:host'\nat = ['https://a.example']";
    insta::assert_snapshot!(errors(text), @r#"
    user:2: network.presets: "pyhton": there is no such preset; `atoll policy presets` lists them; did you mean "python"?
    user:4: network.allow: "htps://a.example": "htps" is no protocol; there are https, http and tcp; did you mean "https://a.example"?
    user:5: network.allow: "get@a.example": "get" is no method of HTTP; did you mean "GET@a.example"?
    user:6: network.allow: ".a.example" is no host: a host name has an empty part between two dots; did you mean "*.a.example"?
    user:7: network.allow: "*a.example" has a "*" where it is not understood; there are "*.example.org" and "*"; did you mean "*.a.example"?
    user:8: network.allow: " a.example" is no host: a host name has the byte 0x20; only letters, digits, "-", "_" and "." are understood; did you mean "a.example"?
    user:9: network.allow: "tcp://a.example": tcp needs a port, as in "tcp://a.example:5432"
    user:10: network.allow: "10.0.0.1/8": 10.0.0.1/8 has bits behind its prefix; the network is 10.0.0.0/8
    user:11: network.allow: "a.example:0": "0" is no port; ports are 1 to 65535
    user:12: network.allow: "": a rule is empty
    user:13: network.allow: "wss://a.example/x": "wss" is no protocol; there are https, http and tcp; did you mean "https://a.example/x"?
    user:14: network.allow: "a b" is no host: a host name has the byte 0x20; only letters, digits, "-", "_" and "." are understood
    user:15: network.allow: "ftp://a.example": "ftp" is no protocol; there are https, http and tcp
    user:16: network.deny: "a..b" is no host: a host name has an empty part between two dots
    user:21: network.secret: "api.example": a secret goes by https alone, to hosts of one name each; did you mean "https://api.example"?
    user:22: network.secret: "*.example": a secret goes by https alone, to hosts of one name each
    user:23: network.secret: "http://b.example": a secret goes by https alone, to hosts of one name each; did you mean "https://b.example"?
    user:24: network.secret: "tcp://c.example:1": a secret goes by https alone, to hosts of one name each; did you mean "https://c.example:1"?
    user:25: network.secret: "header:host": this header belongs to the connection; a secret cannot be put there
    user:17: network.stand_in: "11.0.0.0/30": its prefix is not from 8 to 24
    "#);
}

#[test]
fn secrets_are_understood() {
    let text = "[network.secret.A]\nas = 'basic:x'\nenv = 'T'\nat = ['https://PUT@a.example/x/**']\n[network.secret.B]\nfile = '/x'";
    let network = network(&[(Level::User, text)]);
    let [secret] = &network.secrets[..] else { panic!("{:?}", network.secrets) };
    assert_eq!(secret.name, "A");
    assert_eq!(network.stand_ins.range.to_string(), "11.0.0.0/15");
    assert_eq!(secret.at[0].to_string(), "https://PUT@a.example/x/**");
}

/// Rules about few hosts, so that they meet.
fn rules() -> impl Strategy<Value = Vec<String>> {
    let protocol = prop::sample::select(vec!["", "https://", "http://", "https://GET@"]);
    let host = prop::sample::select(vec!["*", "*.b", "a.b", "*.a.b", "c.a.b"]);
    let port = prop::sample::select(vec!["", ":443", ":80,443"]);
    let path = prop::sample::select(vec!["", "/x", "/x/**"]);
    let web = (protocol, host, port, path)
        .prop_map(|(protocol, host, port, path)| format!("{protocol}{host}{port}{path}"));
    let other = prop::sample::select(vec![
        "tcp://a.b:443",
        "tcp://*:443",
        "10.0.0.0/8",
        "10.1.0.0/16:443",
        "tcp://10.1.1.1:443",
        "[::/0]",
        "127.0.0.1",
    ]);
    prop::collection::vec(prop_oneof![4 => web, 1 => other.prop_map(str::to_owned)], 0..4)
}

fn section() -> impl Strategy<Value = String> {
    let list = || prop::option::of(rules());
    let presets = prop::option::of(prop::sample::subsequence(vec!["python", "node"], 0..=2));
    (list(), list(), list(), presets).prop_map(|(allow, ask, deny, presets)| {
        let mut text = String::from("[network]\n");
        let presets = presets.map(|names| names.into_iter().map(str::to_owned).collect());
        for (key, items) in [("allow", allow), ("ask", ask), ("deny", deny), ("presets", presets)] {
            if let Some(items) = items {
                text += &format!("{key} = {items:?}\n");
            }
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Whatever a project's file says, what is reached was reached without it.
    #[test]
    fn a_project_makes_nothing_reachable(
        user in section(), flags in section(), project in section(), is_tls: bool,
        mode in prop::sample::select(vec!["", "mode = 'none'\n"]),
        host in prop::sample::select(vec!["b", "a.b", "c.a.b", "d.b", "pypi.org", "10.1.1.1", "10.2.2.2", "127.0.0.1", "::1"]),
        port in prop::sample::select(vec![80_u16, 443, 22]),
        method in prop::sample::select(vec!["GET", "PUT"]),
        path in prop::sample::select(vec!["/", "/x", "/x/y", "//"]),
    ) {
        let user = format!("{user}mode = 'rules'\n");
        let project = format!("{project}{mode}");
        let without = network(&[(Level::User, &user), (Level::Flag, &flags)]).policy();
        let with = network(&[(Level::User, &user), (Level::Project, &project), (Level::Flag, &flags)]);
        let with = with.policy();
        let name = host.parse::<atoll_egress::name::Name>();
        let address = host.parse::<std::net::IpAddr>().ok();
        let asked = match (&name, address) {
            (_, Some(address)) => Asked::Address(address),
            (Ok(name), None) => Asked::Name(name),
            (Err(_), None) => unreachable!("every host is one or the other"),
        };
        let request = Request { method, path };
        let of = |policy: &Policy| policy.request(asked, port, is_tls, request).action;
        prop_assert!(of(&with) >= of(&without));
        prop_assert!(with.tls(asked, port).action >= without.tls(asked, port).action);
        let opens = |policy: &Policy| match policy.connection(asked, port) {
            Connection::Refuse(_) => Action::Deny,
            Connection::Pass(verdict) => verdict.action,
            Connection::Look { .. } => Action::Allow,
        };
        prop_assert!(opens(&without) != Action::Deny || opens(&with) == Action::Deny);
        // What passes unseen did so before, and no more willingly.
        if let Connection::Pass(verdict) = with.connection(asked, port) {
            let Connection::Pass(before) = without.connection(asked, port) else {
                return Err(TestCaseError::fail("passes unseen"));
            };
            prop_assert!(verdict.action >= before.action);
        }
        if let Ok(name) = &name {
            prop_assert!(with.name(name).is_err() || without.name(name).is_ok());
        }
        if let Some(address) = address {
            prop_assert!(with.dial(address, port).is_err() || without.dial(address, port).is_ok());
        }
    }
}
