//! Pools: sandboxes that are started before anybody asks for them.
//!
//! A member of a pool runs nothing of anybody's. It is given to one request, which brings its name,
//! variables, labels, times, budget, workspace and network with it, and is that request's sandbox from
//! then on: none is given twice, and none goes back.

use crate::name::SandboxName;
use crate::sandbox::{CreateSandbox, InvalidRequest, NUMBER_MAX, malformed, within};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Most members of a pool.
pub const POOL_SIZE_MAX: u32 = 1000;

/// What a request gets of a pool that has no member ready.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhenExhausted {
    /// An error, at once: `capacity`, with when to ask again.
    #[default]
    Refuse,
    /// A sandbox that is made for it from the start.
    Cold,
}

/// Asks for a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreatePool {
    /// A name that no other pool has.
    pub name: SandboxName,
    /// How many members are kept ready.
    #[schema(minimum = 1, maximum = 1000)]
    pub size: u32,
    /// At least so long from one member's beginning to the next one's; as fast as can be where nothing is
    /// said.
    #[serde(default)]
    #[schema(maximum = 9007199254740991u64)]
    pub refill_ms: u64,
    /// What a request gets when no member is ready.
    #[serde(default)]
    pub when_exhausted: WhenExhausted,
    /// What members are, as in a request for a sandbox; no name, workspace, volumes, or files of secrets,
    /// and of no pool. A request that is given a member has of this what it does not say itself: variables,
    /// labels, times and limits one by one, everything else as a whole.
    #[serde(default)]
    pub sandbox: CreateSandbox,
}

/// Changes a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetPool {
    /// How many members are kept ready; those beyond it go.
    #[schema(minimum = 1, maximum = 1000)]
    pub size: u32,
}

/// A pool as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Pool {
    /// Its name.
    pub name: SandboxName,
    /// When it was made.
    pub created_at: Timestamp,
    /// How many members are kept ready.
    pub size: u32,
    /// At least so long from one member's beginning to the next one's.
    pub refill_ms: u64,
    /// What a request gets when no member is ready.
    pub when_exhausted: WhenExhausted,
    /// What members are made of: an image, a snapshot's id or a template, as the pool was told.
    pub of: String,
    /// Members that are ready.
    pub ready: u32,
    /// Members that are being made.
    pub making: u32,
    /// Requests that got a member since the server was started.
    pub given: u64,
    /// Requests since then that got none: refused, or made from the start.
    pub missed: u64,
    /// Why the last member could not be made, until one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// All pools, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Pools {
    /// The pools.
    pub pools: Vec<Pool>,
}

/// How a sandbox came of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OfPool {
    /// Which.
    pub name: SandboxName,
    /// Why it was made from the start and is none of its members: the pool was `exhausted`, or the request
    /// has something that a member cannot be given any more, as in `limits`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold_because: Option<String>,
}

impl CreatePool {
    /// Checks everything that can be judged without knowing the server.
    ///
    /// # Errors
    /// Gives the first field that is wrong, with the limit that it breaks.
    pub fn validate(&self) -> Result<(), InvalidRequest> {
        validate_size(self.size)?;
        within("refill_ms", self.refill_ms, 0, NUMBER_MAX)?;
        self.sandbox.validate().map_err(|error| error.within("sandbox"))?;
        let of = &self.sandbox;
        for (field, is_said) in [
            ("sandbox.name", of.name.is_some()),
            ("sandbox.workspace", of.workspace.is_some()),
            ("sandbox.volumes", !of.volumes.is_empty()),
            ("sandbox.pool", of.pool.is_some()),
        ] {
            if is_said {
                return malformed(field, "is for the requests that are given a member");
            }
        }
        let secrets = of.network.iter().flat_map(|network| &network.secrets);
        if secrets.into_iter().any(|secret| secret.file.is_some()) {
            return malformed("sandbox.network.secrets", "cannot be files in a pool");
        }
        Ok(())
    }
}

impl SetPool {
    /// Checks it.
    ///
    /// # Errors
    /// If the size is not one.
    pub fn validate(&self) -> Result<(), InvalidRequest> {
        validate_size(self.size)
    }
}

fn validate_size(size: u32) -> Result<(), InvalidRequest> {
    within("size", u64::from(size), 1, u64::from(POOL_SIZE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> CreatePool {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_pool_has_a_size_and_nothing_that_is_a_requests_own() {
        let fine = parse(r#"{"name": "p", "size": 2, "sandbox": {"template": "web"}}"#);
        fine.validate().unwrap();
        assert_eq!(
            (fine.sandbox.made_of().as_str(), fine.when_exhausted),
            ("web", WhenExhausted::Refuse)
        );
        assert_eq!(parse(r#"{"name": "p", "size": 2}"#).sandbox.made_of(), "host");
        for (text, field) in [
            (r#"{"name": "p", "size": 0}"#, "size"),
            (r#"{"name": "p", "size": 1001}"#, "size"),
            (r#"{"name": "p", "size": 1, "sandbox": {"name": "x"}}"#, "sandbox.name"),
            (r#"{"name": "p", "size": 1, "sandbox": {"pool": "q"}}"#, "sandbox.pool"),
            (r#"{"name": "p", "size": 1, "sandbox": {"image": ""}}"#, "sandbox.image"),
            (
                r#"{"name": "p", "size": 1, "sandbox": {"volumes": [{"volume": "v", "path": "/v"}]}}"#,
                "sandbox.volumes",
            ),
        ] {
            assert_eq!(parse(text).validate().unwrap_err().field(), field, "{text}");
        }
    }
}
