//! Both ways in which TLS goes through the gateway, for programs to try.

use super::atoll;
use atoll_testkit::internet::{Internet, Request, Response};
use atoll_testkit::run::{Project, Ran};

/// One server under two names: TLS to `pass.test` is passed through, TLS to `open.test` is opened,
/// as a rule looks at paths.
pub(super) struct Ways {
    pub(super) internet: Internet,
    pub(super) port: u16,
    rules: [String; 3],
}

pub(super) const PASSED: &str = "pass.test";
pub(super) const OPENED: &str = "open.test";

/// Says what was asked.
fn told(request: &Request) -> Response {
    let text = format!("{} {}\n", request.method, request.path);
    (200, Vec::new(), text.into_bytes())
}

impl Ways {
    /// One whose server says what it was asked.
    pub(super) fn new() -> Self {
        Self::with(told)
    }

    pub(super) fn with(answer: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Self {
        Self::to(|internet| internet.https(&[PASSED, OPENED], answer).port)
    }

    /// One to a server that listens at the port that `serve` gives.
    pub(super) fn to(serve: impl FnOnce(&Internet) -> u16) -> Self {
        let internet = Internet::new();
        for name in [PASSED, OPENED] {
            internet.name(name, &["127.0.0.1"]);
        }
        let port = serve(&internet);
        let rules = [
            format!("{PASSED}:{port}"),
            format!("https://{OPENED}:{port}/ok/**"),
            format!("127.0.0.1/32:{port}"),
        ];
        Self { internet, port, rules }
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
        format!("https://{name}:{}{path}", self.port)
    }

    /// Runs these words inside.
    pub(super) fn run<'a>(
        &self,
        project: &Project,
        words: impl IntoIterator<Item = &'a str>,
    ) -> Ran {
        let mut command = atoll(&self.internet, project, &self.flags());
        Ran(command.arg("--").args(words).output().unwrap())
    }

    /// Runs a script of the shell inside, with the same path by both as `$1` and `$2`.
    pub(super) fn run_sh(&self, project: &Project, path: &str, script: &str) -> Ran {
        let [passed, opened] = self.urls(path);
        self.run(project, ["sh", "-c", script, "sh", &passed, &opened])
    }
}
