//! What a sandbox may reach, as the API is asked for it and answers.
//!
//! Rules are text here; what they mean is the gateway's to know.

use crate::object::object;
use crate::policy::{NetworkMode, SecretUse, is_place_of_secrets};
use crate::sandbox::{InvalidRequest, NUMBER_MAX, malformed, not_longer, not_more};
use crate::secret::SecretName;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::collections::BTreeSet;
use std::path::Path;

/// Most rules of one list.
pub const NETWORK_RULES_COUNT_MAX: usize = 1000;
/// Longest rule, in bytes.
pub const NETWORK_RULE_BYTES_MAX: usize = 2048;
/// Most presets.
pub const NETWORK_PRESETS_COUNT_MAX: usize = 64;
/// Most secrets of one sandbox.
pub const NETWORK_SECRETS_COUNT_MAX: usize = 64;
/// Most hosts of one secret.
pub const NETWORK_SECRET_HOSTS_COUNT_MAX: usize = 64;
/// Longest path of a secret's file, in bytes.
const FILE_BYTES_MAX: usize = 4095;

/// What a sandbox may reach. `{"presets": ["python"], "allow": ["api.example.org"]}` is such a
/// policy; with `{}` nothing is reached, but more may be allowed while the sandbox lives.
///
/// A rule is `[PROTOCOL://][METHOD[,METHOD]@]HOST[:PORT[,PORT]][/PATH]`. The most precise one
/// decides; among equally precise ones `deny` comes before `ask`, and `ask` before `allow` and
/// presets. What no rule is about is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkPolicy {
    /// `rules`, or `none`: loopback inside and nothing else, whatever the rules say.
    #[serde(default = "rules")]
    pub mode: NetworkMode,
    /// Names of lists of hosts that are often allowed together.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub presets: Vec<String>,
    /// Rules: what may be reached.
    #[serde(default)]
    #[schema(max_items = 1000)]
    pub allow: Vec<String>,
    /// Rules: what a person is asked about.
    #[serde(default)]
    #[schema(max_items = 1000)]
    pub ask: Vec<String>,
    /// Rules: what is refused.
    #[serde(default)]
    #[schema(max_items = 1000)]
    pub deny: Vec<String>,
    /// Refused names lead to an answer with the reason.
    #[serde(default = "yes")]
    pub explain: bool,
    /// Hosts are reached over IPv6 too.
    #[serde(default = "yes")]
    pub ipv6: bool,
    /// `HTTP_PROXY` and its like are set inside, for programs that want them.
    #[serde(default)]
    pub proxy_variables: bool,
    /// How much may pass.
    #[serde(default, deserialize_with = "object")]
    pub budgets: NetworkBudgets,
    /// Secrets of the server, and what becomes of them. To say so needs a key of scope `admin`.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub secrets: Vec<NetworkSecret>,
}

const fn rules() -> NetworkMode {
    NetworkMode::Rules
}

const fn yes() -> bool {
    true
}

impl Default for NetworkPolicy {
    fn default() -> Self {
        Self {
            mode: rules(),
            presets: Vec::new(),
            allow: Vec::new(),
            ask: Vec::new(),
            deny: Vec::new(),
            explain: yes(),
            ipv6: yes(),
            proxy_variables: false,
            budgets: NetworkBudgets::default(),
            secrets: Vec::new(),
        }
    }
}

/// How much may pass in the whole life of a sandbox. What is not said is not bounded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkBudgets {
    /// Requests of HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 9007199254740991u64)]
    pub requests_max: Option<u64>,
    /// Bytes, both ways together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 9007199254740991u64)]
    pub bytes_max: Option<u64>,
    /// Requests of HTTP to one host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 9007199254740991u64)]
    pub requests_per_host_max: Option<u64>,
    /// Bytes to and from one host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 9007199254740991u64)]
    pub bytes_per_host_max: Option<u64>,
}

/// A secret and what becomes of it: either `at` and `as`, or `file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkSecret {
    /// Its name.
    pub name: SecretName,
    /// Rules about the hosts that get it: of one name each, by https alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 64)]
    pub at: Vec<String>,
    /// Where in a request it is put.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub used_as: Option<SecretUse>,
    /// The variable inside that holds what stands for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub env: Option<String>,
    /// The file inside, below `/run/secrets`, that has the value itself: whatever runs there can read
    /// it and send it on. It has the value that the secret has when its sandbox is started, until that
    /// is stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^/run/secrets/.", max_length = 4095)]
    pub file: Option<String>,
}

impl NetworkPolicy {
    /// Checks what can be judged without understanding rules.
    ///
    /// # Errors
    /// Gives the first field that is wrong, with the limit that it breaks.
    pub fn validate(&self) -> Result<(), InvalidRequest> {
        not_more("network.presets", self.presets.len(), NETWORK_PRESETS_COUNT_MAX)?;
        let lists = [
            ("network.presets", &self.presets),
            ("network.allow", &self.allow),
            ("network.ask", &self.ask),
            ("network.deny", &self.deny),
        ];
        for (field, rules) in lists {
            not_more(field, rules.len(), NETWORK_RULES_COUNT_MAX)?;
            short(field, rules)?;
        }
        let budgets = &self.budgets;
        for (field, value) in [
            ("network.budgets.requests_max", budgets.requests_max),
            ("network.budgets.bytes_max", budgets.bytes_max),
            ("network.budgets.requests_per_host_max", budgets.requests_per_host_max),
            ("network.budgets.bytes_per_host_max", budgets.bytes_per_host_max),
        ] {
            if let Some(found) = value.filter(|&found| found > NUMBER_MAX) {
                let (field, most) = (field.to_owned(), NUMBER_MAX);
                return Err(InvalidRequest::TooLarge { field, found, most });
            }
        }
        not_more("network.secrets", self.secrets.len(), NETWORK_SECRETS_COUNT_MAX)?;
        let mut names = BTreeSet::new();
        for (index, secret) in self.secrets.iter().enumerate() {
            let field = format!("network.secrets.{index}");
            if !names.insert(&secret.name) {
                return malformed(&format!("{field}.name"), "is there already");
            }
            secret.validate(&field)?;
        }
        Ok(())
    }
}

impl NetworkSecret {
    fn validate(&self, field: &str) -> Result<(), InvalidRequest> {
        let at = format!("{field}.at");
        not_more(&at, self.at.len(), NETWORK_SECRET_HOSTS_COUNT_MAX)?;
        short(&at, &self.at)?;
        if let Some(name) = &self.env
            && (name.is_empty() || name.contains(['=', '\0']))
        {
            return malformed(&format!("{field}.env"), "is empty or contains = or NUL");
        }
        let Some(path) = &self.file else {
            if self.at.is_empty() {
                return malformed(&at, "is empty, and there is no file");
            }
            if self.used_as.is_none() {
                return malformed(&format!("{field}.as"), "is missing");
            }
            return Ok(());
        };
        let file = format!("{field}.file");
        not_longer(&file, path, FILE_BYTES_MAX)?;
        let mut parts = path.strip_prefix('/').unwrap_or_default().split('/');
        let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        if path.contains('\0') || !parts.all(is_plain) {
            return malformed(&file, "is no path of a file from /");
        }
        if !is_place_of_secrets(Path::new(path)) {
            return malformed(&file, "is not below /run/secrets");
        }
        if !self.at.is_empty() || self.used_as.is_some() || self.env.is_some() {
            return malformed(&file, "is instead of at, as and env");
        }
        Ok(())
    }
}

fn short(field: &str, rules: &[String]) -> Result<(), InvalidRequest> {
    for (index, rule) in rules.iter().enumerate() {
        not_longer(&format!("{field}.{index}"), rule, NETWORK_RULE_BYTES_MAX)?;
    }
    Ok(())
}

impl Serialize for SecretUse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SecretUse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

crate::schema::string_schema!(
    SecretUse,
    "Where in a request a secret is put: `bearer`, `basic:USER`, `header:NAME` or `query:NAME`.",
    Some("^(bearer|basic:[^:]+|header:.+|query:.+)$"),
    None,
    "bearer"
);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(value: Value) -> Result<NetworkPolicy, String> {
        let policy: NetworkPolicy = object(value).map_err(|error| error.to_string())?;
        policy.validate().map_err(|error| error.to_string())?;
        Ok(policy)
    }

    #[test]
    fn a_policy_as_it_is_written() {
        assert_eq!(read(json!({})), Ok(NetworkPolicy::default()));
        let written = json!({
            "mode": "rules",
            "presets": ["python"],
            "allow": ["https://GET@api.example/v1/**"],
            "ask": ["*"],
            "deny": ["gist.github.com"],
            "explain": false,
            "ipv6": true,
            "proxy_variables": true,
            "budgets": {"requests_max": 10, "bytes_per_host_max": 1024},
            "secrets": [
                {"name": "GITHUB", "at": ["https://api.github.com"], "as": "basic:x", "env": "TOKEN"},
                {"name": "KEY", "file": "/run/secrets/key"},
            ],
        });
        let policy = read(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&policy).unwrap(), written);
    }

    /// What is not a list of text is never taken for "all".
    #[test]
    fn what_is_malformed_is_refused() {
        for wrong in [
            json!([]),
            json!({"alow": []}),
            json!({"allow": "*"}),
            json!({"allow": null}),
            json!({"allow": true}),
            json!({"allow": {"*": true}}),
            json!({"allow": [["*"]]}),
            json!({"deny": [1]}),
            json!({"mode": "all"}),
            json!({"budgets": []}),
            json!({"budgets": {"requests": 1}}),
            json!({"budgets": {"requests_max": -1}}),
            json!({"secrets": [{"name": "A", "at": ["https://a"], "as": "cookie"}]}),
            json!({"secrets": [{"name": "..", "file": "/x"}]}),
        ] {
            assert!(object::<_, NetworkPolicy>(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_beyond_the_limits_is_refused_with_its_field() {
        let secret = |secret: Value| json!({"secrets": [secret]});
        let long = "a".repeat(NETWORK_RULE_BYTES_MAX + 1);
        for (written, field) in [
            (json!({"allow": vec!["a"; NETWORK_RULES_COUNT_MAX + 1]}), "network.allow "),
            (json!({"presets": vec!["a"; NETWORK_PRESETS_COUNT_MAX + 1]}), "network.presets "),
            (json!({"deny": ["a", long]}), "network.deny.1 "),
            (json!({"budgets": {"bytes_max": NUMBER_MAX + 1}}), "network.budgets.bytes_max "),
            (secret(json!({"name": "A"})), "network.secrets.0.at "),
            (secret(json!({"name": "A", "at": ["https://a"]})), "network.secrets.0.as "),
            (secret(json!({"name": "A", "file": "x"})), "network.secrets.0.file "),
            (secret(json!({"name": "A", "file": "/run/secrets"})), "network.secrets.0.file "),
            (secret(json!({"name": "A", "file": "/run/secret/a"})), "network.secrets.0.file "),
            (secret(json!({"name": "A", "file": "/a/../b"})), "network.secrets.0.file "),
            (
                secret(json!({"name": "A", "file": "/run/secrets/x", "env": "A"})),
                "network.secrets.0.file ",
            ),
            (
                secret(json!({"name": "A", "file": "/run/secrets/x", "env": "A=B"})),
                "network.secrets.0.env ",
            ),
            (
                json!({"secrets": [
                    {"name": "A", "file": "/run/secrets/x"}, {"name": "A", "file": "/run/secrets/y"},
                ]}),
                "network.secrets.1.name ",
            ),
        ] {
            let error = read(written).unwrap_err();
            assert!(error.starts_with(field), "{error}");
        }
        let most = json!({
            "allow": vec![&long[1..]; NETWORK_RULES_COUNT_MAX],
            "budgets": {"bytes_max": NUMBER_MAX},
        });
        assert!(read(most).is_ok(), "control: what is at the limits");
    }
}
