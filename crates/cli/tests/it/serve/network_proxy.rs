//! A proxy through which all sandboxes of a server go.

use super::execs::{printed, run};
use super::support::{command, log};
use super::{Served, each};
use atoll_testkit::internet::Internet;
use atoll_testkit::proxy::Proxy;
use serde_json::json;

const PASSWORD: &str = "pass-7Tq-word";

/// What a sandbox gets of a host that only the proxy can look up, and what the proxy was asked.
fn fetched(
    served: &Served<'_>,
    internet: &Internet,
    proxy: &Proxy,
    port: u16,
) -> (String, Vec<String>) {
    let allow = [format!("far.test:{port}"), format!("https://opened.test:{port}/**")];
    let request = json!({ "name": "web", "network": { "allow": allow } });
    let made = served.ask("POST", "/v1/sandboxes", Some(&request));
    assert_eq!(made.status, 201, "{made:?}");
    let script = format!("curl -sS https://far.test:{port}/a https://opened.test:{port}/b 2>&1");
    let text = printed(&run(served, &json!({ "shell": script }))).to_owned();
    assert_eq!(internet.questions(), Vec::<String>::new());
    let audit = served.ask("GET", "/v1/audit", None).body.to_string();
    let denials = served.ask("GET", "/v1/sandboxes/web/denials", None).body.to_string();
    for told in [&text, &audit, &denials, &log(served.project())] {
        assert!(!told.contains(PASSWORD), "{told}");
    }
    (text, proxy.asked())
}

#[test]
fn all_that_leaves_goes_through_it_and_its_password_is_nowhere() {
    for kind in ["http", "socks5"] {
        each(|project| {
            let internet = Internet::new();
            let site = internet.https(&["far.test", "opened.test"], |request| {
                (200, Vec::new(), format!("{}\n", request.path).into_bytes())
            });
            let proxy = Proxy::new(&format!("ada:{PASSWORD}"));
            let serving = proxy.clone();
            let at = internet.serve(move |client| serving.serve(client));
            let url = format!("{kind}://ada:{PASSWORD}@127.0.0.1:{at}");
            let served =
                Served::start_in_with(project, &internet, &[], &[("ATOLL_UPSTREAM_PROXY", url)]);
            let (text, asked) = fetched(&served, &internet, &proxy, site.port);
            assert_eq!(text, "/a\n/b\n");
            let expected = ["far.test", "opened.test"].map(|name| format!("{name}:{}", site.port));
            assert_eq!(asked, expected);
            let shown = format!("{kind}://***@127.0.0.1:{at}");
            assert!(log(project).contains(&shown), "{}", log(project));
        });
    }
}

#[test]
fn one_that_lets_nobody_in_is_told_and_nothing_goes_around_it() {
    each(|project| {
        let internet = Internet::new();
        let site = internet.https(&["far.test", "opened.test"], |_| (200, Vec::new(), Vec::new()));
        let proxy = Proxy::new("ada:another");
        let serving = proxy.clone();
        let at = internet.serve(move |client| serving.serve(client));
        let url = format!("http://ada:{PASSWORD}@127.0.0.1:{at}");
        let flags = ["--upstream-proxy", &url];
        let served = Served::start_in_with(project, &internet, &flags, &[]);
        let (text, asked) = fetched(&served, &internet, &proxy, site.port);
        assert!(text.contains("connect-failed"), "{text}");
        assert_eq!((asked, site.requests().len()), (Vec::new(), 0));
    });
}

#[test]
fn what_is_no_proxy_is_not_repeated() {
    each(|project| {
        for url in [&format!("ftp://ada:{PASSWORD}@h:1"), &format!("http://ada:{PASSWORD}@h")] {
            let mut by_flag = command(project, &["--upstream-proxy", url]);
            let mut by_variable = command(project, &[]);
            by_variable.env("ATOLL_UPSTREAM_PROXY", url);
            for serving in [&mut by_flag, &mut by_variable] {
                assert_eq!(serving.status().unwrap().code(), Some(125));
            }
            let said = log(project);
            assert!(said.contains("no proxy") && !said.contains(PASSWORD), "{said}");
        }
    });
}
