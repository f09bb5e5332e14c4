//! Both ways in which TLS goes through the gateway, for programs to try.

use atoll_testkit::internet::{Internet, Request, Response, Site};

/// One server under two names: TLS to `pass.test` is passed through, TLS to `open.test` is opened,
/// as a rule looks at paths.
pub(super) struct Ways {
    pub(super) internet: Internet,
    pub(super) site: Site,
    rules: Vec<String>,
}

pub(super) const PASSED: &str = "pass.test";
pub(super) const OPENED: &str = "open.test";

/// Says what was asked.
pub(super) fn told(request: &Request) -> Response {
    let text = format!("{} {}\n", request.method, request.path);
    (200, Vec::new(), text.into_bytes())
}

impl Ways {
    /// One whose server says what it was asked.
    pub(super) fn new() -> Self {
        Self::with(told)
    }

    pub(super) fn with(answer: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Self {
        let internet = Internet::new();
        for name in [PASSED, OPENED] {
            internet.name(name, &["127.0.0.1"]);
        }
        let site = internet.https(&[PASSED, OPENED], answer);
        let port = site.port;
        let rules = vec![
            format!("{PASSED}:{port}"),
            format!("https://{OPENED}:{port}/ok/**"),
            format!("127.0.0.1/32:{port}"),
        ];
        Self { internet, site, rules }
    }

    /// Flags that allow both.
    pub(super) fn flags(&self) -> Vec<&str> {
        self.rules.iter().flat_map(|rule| ["--allow-host", rule]).collect()
    }

    /// The same path by both.
    pub(super) fn urls(&self, path: &str) -> [String; 2] {
        [PASSED, OPENED].map(|name| self.url(name, path))
    }

    pub(super) fn url(&self, name: &str, path: &str) -> String {
        format!("https://{name}:{}{path}", self.site.port)
    }
}
