//! Secrets of a sandbox, and which of them go along with a request.

use crate::control::Binding;
use crate::host::Host;
use crate::http::Passage;
use crate::policy::{Action, Connection, Layer, Policy, Request, Rule, Target};
use crate::secret::{Form, Injection, Secret, Secrets};
use std::sync::Arc;

/// Secrets, each with where it may go.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    all: Vec<Bound>,
    secrets: Arc<Secrets>,
}

#[derive(Debug)]
struct Bound {
    injection: Injection,
    /// Requests that it goes along with; decided like all others.
    at: Policy,
    /// Hosts in it.
    hosts: Vec<Target>,
}

impl Bindings {
    /// Understands what the starter says.
    ///
    /// # Errors
    ///
    /// Which secret is bound in a way that is not understood, and why.
    pub(super) fn new(bindings: &[Binding]) -> Result<Self, String> {
        let mut all = Vec::new();
        let mut secrets = Vec::new();
        for binding in bindings {
            let name = &binding.name;
            let failed = |why: String| format!("the secret {name} cannot be used: {why}");
            let form: Form = binding.form.parse().map_err(|error| failed(format!("{error}")))?;
            let value = binding.value.reveal().as_bytes().to_vec();
            let secret = Secret::new(name.clone(), value, binding.placeholder.clone())
                .map_err(|error| failed(error.to_string()))?;
            let secret = Arc::new(secret);
            let injection =
                Injection::new(secret.clone(), form).map_err(|error| failed(error.to_string()))?;
            let rules = binding.at.iter().map(|text| {
                let rule = Rule::parse(text, Action::Allow)
                    .map_err(|error| failed(format!("{text:?}: {error}")))?;
                match rule.target {
                    Target::Name(_) => Ok(rule),
                    _ => Err(failed(format!("{text:?} is not about one host"))),
                }
            });
            let rules: Vec<Rule> = rules.collect::<Result<_, _>>()?;
            let hosts = rules.iter().map(|rule| rule.target.clone()).collect();
            all.push(Bound { injection, at: Policy::new(vec![Layer::new(rules)]), hosts });
            secrets.push(secret);
        }
        Ok(Self { all, secrets: Arc::new(Secrets::new(secrets)) })
    }

    /// All of them.
    pub(super) fn secrets(&self) -> Arc<Secrets> {
        self.secrets.clone()
    }

    /// Whether any may go to this host, so that its requests have to be seen.
    pub(super) fn has(&self, host: &Host, port: u16) -> bool {
        self.all.iter().any(|bound| {
            !matches!(bound.at.connection(host.as_policy(), port), Connection::Refuse(_))
        })
    }

    /// What goes along with a request that is allowed.
    pub(super) fn passage(
        &self,
        host: &Host,
        port: u16,
        is_tls: bool,
        request: Request<'_>,
    ) -> Passage {
        let goes = |bound: &&Bound| {
            is_tls
                && bound.at.request(host.as_policy(), port, is_tls, request).action == Action::Allow
        };
        let injections = self.all.iter().filter(goes).map(|bound| bound.injection.clone());
        let is_for = |bound: &&Bound| match host {
            Host::Name(name) => bound.hosts.contains(&Target::Name(name.clone())),
            Host::Address(_) => false,
        };
        let redactions =
            self.all.iter().filter(is_for).map(|bound| bound.injection.secret().clone());
        Passage { injections: injections.collect(), redactions: redactions.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(at: &[&str], form: &str) -> Binding {
        Binding {
            name: "TOKEN".to_owned(),
            value: "a value that nobody sees".to_owned().into(),
            placeholder: "atoll_TOKEN_0123456789abcdef".to_owned(),
            at: at.iter().map(|text| (*text).to_owned()).collect(),
            form: form.to_owned(),
        }
    }

    fn goes(bindings: &Bindings, host: &str, port: u16, is_tls: bool, path: &str) -> bool {
        let host = Host::Name(host.parse().unwrap());
        let request = Request { method: "GET", path };
        !bindings.passage(&host, port, is_tls, request).injections.is_empty()
    }

    #[test]
    fn a_secret_goes_where_it_is_bound_and_nowhere_else() {
        let at = ["https://api.example.org", "https://git.example.org/team/**"];
        let bindings = Bindings::new(&[binding(&at, "bearer")]).unwrap();
        assert!(goes(&bindings, "api.example.org", 443, true, "/x"));
        assert!(goes(&bindings, "git.example.org", 443, true, "/team/x.git"));
        for (host, port, is_tls, path) in [
            ("api.example.org", 443, false, "/x"),
            ("api.example.org", 80, true, "/x"),
            ("api.example.org", 8443, true, "/x"),
            ("example.org", 443, true, "/x"),
            ("x.api.example.org", 443, true, "/x"),
            ("git.example.org", 443, true, "/others/x.git"),
            ("git.example.org", 443, true, "/team/../others"),
        ] {
            assert!(!goes(&bindings, host, port, is_tls, path), "{host}:{port} {path}");
        }
        let has = |host: &str, port| bindings.has(&Host::Name(host.parse().unwrap()), port);
        assert!(has("api.example.org", 443) && has("git.example.org", 443));
        assert!(!has("api.example.org", 80) && !has("example.org", 443));
        // It is covered in every answer of the host, also where it does not go along.
        let host = Host::Name("git.example.org".parse().unwrap());
        let request = Request { method: "GET", path: "/others" };
        assert_eq!(bindings.passage(&host, 443, true, request).redactions.len(), 1);
    }

    #[test]
    fn slips_are_named() {
        for (at, form, says) in [
            (&["https://*.example.org"][..], "bearer", "one host"),
            (&["https://*"], "bearer", "one host"),
            (&["https://10.0.0.1"], "bearer", "one host"),
            (&["https://a.b"], "cookie", "bearer, basic:USER"),
            (&["ftp://a.b"], "bearer", "no protocol"),
        ] {
            let error = Bindings::new(&[binding(at, form)]).unwrap_err();
            assert!(error.contains(says) && error.contains("TOKEN"), "{error}");
        }
    }
}
