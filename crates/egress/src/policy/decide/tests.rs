use super::*;
use crate::policy::Action::{Allow, Ask, Deny};
use proptest::prelude::*;

/// `+` in front allows, `?` asks, `-` refuses.
fn layer(lines: &[&str]) -> Layer {
    let rule = |line: &&str| {
        let action = match line.as_bytes()[0] {
            b'+' => Allow,
            b'?' => Ask,
            b'-' => Deny,
            other => panic!("{other}"),
        };
        Rule::parse(&line[1..], action).unwrap_or_else(|error| panic!("{line}: {error}"))
    };
    Layer::new(lines.iter().map(rule).collect())
}

fn policy(lines: &[&str]) -> Policy {
    Policy::new(vec![layer(lines)])
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn tls(policy: &Policy, host: &str, port: u16) -> Action {
    policy.tls(Host::Name(&name(host)), port).action
}

fn http(policy: &Policy, host: &str, method: &str, path: &str) -> Action {
    let request = Request { method, path };
    policy.request(Host::Name(&name(host)), 443, true, request).action
}

fn why(verdict: Result<(), Refusal>) -> &'static str {
    verdict.map_or_else(|refusal| refusal.reason.as_str(), |()| "ok")
}

#[test]
fn nothing_said_is_nothing_allowed() {
    for policy in
        [Policy::new(Vec::new()), policy(&[]), Policy::new(vec![layer(&["+*"]), layer(&[])])]
    {
        assert_eq!(why(policy.name(&name("pypi.org"))), "not-allowed");
        assert_eq!(tls(&policy, "pypi.org", 443), Deny);
        let connection = policy.connection(Host::Name(&name("pypi.org")), 443);
        assert!(matches!(connection, Connection::Refuse(_)), "{connection:?}");
    }
}

#[test]
fn the_most_precise_decides_and_refusals_come_first_among_equals() {
    let policy = policy(&[
        "+*",
        "-*.example.org",
        "+*.good.example.org",
        "-bad.good.example.org",
        "+bad.good.example.org",
        "?asked.org",
        "+asked.org:443",
    ]);
    for (host, action) in [
        ("anything.net", Allow),
        ("example.org", Allow),
        ("a.example.org", Deny),
        ("good.example.org", Deny),
        ("a.good.example.org", Allow),
        ("bad.good.example.org", Deny),
        ("asked.org", Allow),
    ] {
        assert_eq!(tls(&policy, host, 443), action, "{host}");
        let named = policy.name(&name(host)).is_ok();
        assert_eq!(named, action != Deny, "{host}");
    }
    assert_eq!(policy.request(Host::Name(&name("asked.org")), 80, false, GET).action, Ask);
}

const GET: Request<'static> = Request { method: "GET", path: "/" };

#[test]
fn a_layer_narrows_and_never_widens() {
    let user = ["+*.example.org", "-evil.example.org", "?asked.example.org"];
    let project = ["+a.example.org", "+evil.example.org", "+asked.example.org", "+other.net"];
    let policy = Policy::new(vec![layer(&user), layer(&project)]);
    for (host, action) in [
        ("a.example.org", Allow),
        ("b.example.org", Deny),
        ("evil.example.org", Deny),
        ("asked.example.org", Ask),
        ("other.net", Deny),
    ] {
        assert_eq!(tls(&policy, host, 443), action, "{host}");
    }
}

#[test]
fn a_layer_that_only_narrows_leaves_the_rest_alone() {
    let user = ["+*.example.org", "?asked.example.org", "+tcp://db.example.org:5432"];
    let rules = ["-evil.example.org", "?new.example.org", "+asked.example.org", "+other.net"];
    let narrowing = |lines: &[&str]| Layer { only_narrows: true, ..layer(lines) };
    let policy = Policy::new(vec![layer(&user), narrowing(&rules)]);
    for (host, action) in [
        ("a.example.org", Allow),
        ("evil.example.org", Deny),
        ("asked.example.org", Ask),
        ("new.example.org", Ask),
        ("other.net", Deny),
        ("another.net", Deny),
    ] {
        assert_eq!(tls(&policy, host, 443), action, "{host}");
        assert_eq!(policy.name(&name(host)).is_ok(), action != Deny, "{host}");
    }
    let db = name("db.example.org");
    assert!(matches!(policy.connection(Host::Name(&db), 5432), Connection::Pass(_)));
    let other = name("other.net");
    assert_eq!(why(policy.name(&other)), "not-allowed");
    let alone = Policy::new(vec![narrowing(&["-evil.example.org"])]);
    assert_eq!(tls(&alone, "a.example.org", 443), Deny, "nobody has a say");
    assert_eq!(why(Policy::new(vec![layer(&["+*"]), narrowing(&[])]).name(&other)), "ok");
}

#[test]
fn requests_are_judged_by_method_and_path() {
    let policy = policy(&[
        "+https://GET,HEAD@api.example.org",
        "+https://api.example.org/repos/mine/**",
        "-https://DELETE@api.example.org/repos/mine/**",
        "?https://POST@api.example.org/repos/*/issues",
    ]);
    let host = "api.example.org";
    for (method, path, action) in [
        ("GET", "/anything", Allow),
        ("POST", "/anything", Deny),
        ("POST", "/repos/mine/x", Allow),
        ("DELETE", "/repos/mine/x", Deny),
        ("delete", "/repos/mine/x", Deny),
        ("DELETE", "/repos/%6dine/x", Deny),
        ("POST", "/repos/other/issues", Ask),
        ("post", "/repos/other/issues", Deny),
        ("GET", "/repos/mine/../other", Deny),
        ("GET", "/repos/mine%2f..", Deny),
        ("GET", "/x?next=/../..", Allow),
    ] {
        assert_eq!(http(&policy, host, method, path), action, "{method} {path}");
    }
    let named = name(host);
    assert_eq!(policy.connection(Host::Name(&named), 443), Connection::Look { opens_tls: true });
    let verdict =
        policy.request(Host::Name(&named), 443, true, Request { method: "GET", path: "//" });
    assert_eq!(verdict.refusal.unwrap().reason, Reason::Path(PathError::Part));
}

#[test]
fn a_path_that_no_rule_asks_for_is_nobodys_business() {
    let policy = policy(&["+example.org"]);
    assert_eq!(http(&policy, "example.org", "GET", "//a/../b;c"), Allow);
    let host = name("example.org");
    assert_eq!(policy.connection(Host::Name(&host), 443), Connection::Look { opens_tls: false });
}

#[test]
fn what_is_not_web_passes_only_by_a_rule_of_its_own() {
    let rules = ["+tcp://db.example.org:5432", "+web.example.org"];
    let (db, web) = (name("db.example.org"), name("web.example.org"));
    let alone = policy(&rules);
    let passed = alone.connection(Host::Name(&db), 5432);
    assert!(matches!(&passed, Connection::Pass(verdict) if verdict.action == Allow), "{passed:?}");
    for (host, port) in [(&db, 443), (&web, 5432), (&web, 22), (&web, 25), (&web, 6379)] {
        let refused = alone.connection(Host::Name(host), port);
        let Connection::Refuse(refusal) = refused else { panic!("{refused:?}") };
        assert_eq!(refusal.reason, Reason::Port);
    }
    // Who narrows it to the web has it looked at.
    let narrowed = Policy::new(vec![layer(&rules), layer(&["+db.example.org:5432"])]);
    let looked = narrowed.connection(Host::Name(&db), 5432);
    assert_eq!(looked, Connection::Look { opens_tls: false });
}

#[test]
fn plain_and_tls_are_told_apart() {
    let policy = policy(&["+https://a.org:443,80", "+http://b.org:443,80"]);
    let (a, b) = (name("a.org"), name("b.org"));
    let plain = |host| policy.request(Host::Name(host), 80, false, GET);
    assert_eq!(plain(&a).refusal.unwrap().reason, Reason::Protocol);
    assert_eq!(plain(&b).action, Allow);
    assert_eq!(policy.tls(Host::Name(&a), 443).action, Allow);
    assert_eq!(policy.tls(Host::Name(&b), 443).refusal.unwrap().reason, Reason::Protocol);
}

#[test]
fn addresses_need_rules_of_their_own() {
    let policy = policy(&["+*", "+10.0.0.0/8", "-10.9.0.0/16", "+10.9.9.9:22,443"]);
    for (address, port, opens) in [
        ("1.1.1.1", 443, false),
        ("10.1.1.1", 443, true),
        ("10.9.1.1", 443, false),
        ("10.9.9.9", 22, true),
        ("::ffff:10.1.1.1", 443, false),
    ] {
        let host = Host::Address(address.parse().unwrap());
        let refused = matches!(policy.connection(host, port), Connection::Refuse(_));
        assert_eq!(refused, !opens, "{address}");
    }
    let all_but = super::tests::policy(&["+[::/0]", "-10.0.0.0/8"]);
    for (address, opens) in [("2606:4700::1111", true), ("::ffff:10.1.1.1", false)] {
        let host = Host::Address(address.parse().unwrap());
        let refused = matches!(all_but.connection(host, 443), Connection::Refuse(_));
        assert_eq!(refused, !opens, "{address}");
    }
    let literal = Host::Address("1.1.1.1".parse().unwrap());
    let Connection::Refuse(refusal) = policy.connection(literal, 443) else { panic!() };
    assert_eq!(refusal.reason, Reason::Literal);
}

#[test]
fn names_lead_inside_only_where_the_first_layer_says_so() {
    let dial = |policy: &Policy, address: &str| why(policy.dial(address.parse().unwrap(), 443));
    let open = policy(&["+*", "-203.0.114.0/24"]);
    for (address, word) in [
        ("8.8.8.8", "ok"),
        ("2606:4700::1111", "ok"),
        ("203.0.114.7", "denied"),
        ("::ffff:203.0.114.7", "denied"),
        ("64:ff9b::cb00:7207", "denied"),
        ("10.0.0.1", "inside-address"),
        ("127.0.0.1", "inside-address"),
        ("::ffff:127.0.0.1", "inside-address"),
        ("64:ff9b::a9fe:a9fe", "inside-address"),
        ("169.254.169.254", "inside-address"),
        ("0.0.0.0", "inside-address"),
    ] {
        assert_eq!(dial(&open, address), word, "{address}");
    }
    let granted = policy(&["+*", "+10.0.0.0/8", "+169.254.0.0/16", "+0.0.0.0/8", "?172.16.0.0/12"]);
    for (address, word) in [
        ("10.0.0.1", "ok"),
        ("169.254.1.1", "ok"),
        ("169.254.169.254", "inside-address"),
        ("0.0.0.0", "inside-address"),
        ("172.16.0.1", "inside-address"),
        ("192.168.0.1", "inside-address"),
    ] {
        assert_eq!(dial(&granted, address), word, "{address}");
    }
    assert_eq!(dial(&policy(&["+169.254.169.254"]), "169.254.169.254"), "ok");
    let project = Policy::new(vec![layer(&["+*"]), layer(&["+*", "+10.0.0.0/8"])]);
    assert_eq!(dial(&project, "10.0.0.1"), "inside-address");
    let narrowed = Policy::new(vec![layer(&["+*", "+10.0.0.0/8"]), layer(&["+*", "-10.0.0.0/8"])]);
    assert_eq!(dial(&narrowed, "10.0.0.1"), "denied");
    // At another port than the one that was granted.
    let port = policy(&["+tcp://10.0.0.1:22"]);
    assert_eq!(dial(&port, "10.0.0.1"), "inside-address");
}

/// Rules about few names, so that they meet.
fn lines() -> impl Strategy<Value = Vec<String>> {
    let line = (
        prop::sample::select(vec!["+", "?", "-"]),
        prop::sample::select(vec!["", "https://", "http://", "https://GET@"]),
        prop::sample::select(vec!["*", "*.b", "a.b", "*.a.b", "c.a.b"]),
        prop::sample::select(vec!["", ":443", ":80,443"]),
        prop::sample::select(vec!["", "/x", "/x/**", "/*"]),
    );
    // A path needs a protocol, or is for both.
    let line = line.prop_map(|(action, protocol, host, port, path)| {
        format!("{action}{protocol}{host}{port}{path}")
    });
    prop::collection::vec(line, 0..6)
}

proptest! {
    #[test]
    fn order_does_not_matter_and_more_layers_never_widen(
        first in lines(), second in lines(), only_narrows: bool, is_tls: bool, port in prop::sample::select(vec![80_u16, 443]),
        host in prop::sample::select(vec!["b", "a.b", "c.a.b", "d.b", "e"]),
        method in prop::sample::select(vec!["GET", "PUT"]),
        path in prop::sample::select(vec!["/", "/x", "/x/y"]),
    ) {
        let layer = |lines: &[String]| layer(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        let host = name(host);
        let host = Host::Name(&host);
        let request = Request { method, path };
        let one = Policy::new(vec![layer(&first)]);
        let reversed: Vec<String> = first.iter().rev().cloned().collect();
        let both = Policy::new(vec![layer(&first), Layer { only_narrows, ..layer(&second) }]);
        let of = |policy: &Policy| policy.request(host, port, is_tls, request).action;
        prop_assert_eq!(of(&one), of(&Policy::new(vec![layer(&reversed)])));
        prop_assert!(of(&both) >= of(&one));
        // What a connection is refused for, no request in it would be allowed.
        if matches!(both.connection(host, port), Connection::Refuse(_)) {
            prop_assert_eq!(of(&both), Deny);
            prop_assert_eq!(both.tls(host, port).action == Allow, false);
        }
        // Where TLS is not opened, every request is what the connection was.
        if both.connection(host, port) == (Connection::Look { opens_tls: false }) && is_tls {
            prop_assert_eq!(of(&both), both.tls(host, port).action);
        }
    }
}
