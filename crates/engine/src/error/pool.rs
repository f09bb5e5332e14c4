//! Why a pool is not made, changed or deleted, or gives nothing.

use super::{CAPACITY_RETRY_MS, CreateError, hopeless, invalid, of_records, plain};
use crate::pools::POOLS_MAX;
use crate::records::RecordsError;
use atoll_api::error::{ApiError, ErrorCode, Retry};
use atoll_api::name::SandboxName;
use atoll_api::sandbox::InvalidRequest;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The request is wrong.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// There is none of that name.
    #[error("there is no pool {name}")]
    NotFound {
        /// The name.
        name: SandboxName,
    },
    /// There is one of that name.
    #[error("there is a pool {name} already")]
    NameTaken {
        /// The name.
        name: SandboxName,
    },
    /// There are as many as there may be.
    #[error("there are {POOLS_MAX} pools, which is the most")]
    TooMany,
    /// No sandbox could be made of what its members are to be.
    #[error("no member could be made: {0}")]
    Members(Box<CreateError>),
    /// No member is ready, and nobody asked for a sandbox that is made from the start then.
    #[error("no member of pool {name} is ready")]
    Exhausted {
        /// Its name.
        name: SandboxName,
        /// How many are kept ready.
        size: u32,
    },
    /// It could not be recorded.
    #[error("could not record the pool")]
    Records(#[source] RecordsError),
}

impl PoolError {
    /// What the caller is answered.
    pub fn to_api(&self) -> ApiError {
        match self {
            Self::Invalid(error) => invalid(error),
            Self::NotFound { .. } => {
                hopeless(ErrorCode::NotFound, self, "list the pools that there are")
            }
            Self::NameTaken { .. } => {
                let next_step = "use that pool, delete it, or choose another name";
                hopeless(ErrorCode::Conflict, self, next_step)
            }
            Self::TooMany => {
                let mut answer = plain(ErrorCode::Capacity, self, "delete a pool first");
                answer.details.limit = Some("pools_max".to_owned());
                answer.details.limit_value = u64::try_from(POOLS_MAX).ok();
                answer
            }
            Self::Members(source) => {
                let mut answer = source.to_api();
                answer.message = self.to_string();
                let field = answer.details.field.take();
                answer.details.field = field.map(|field| format!("sandbox.{field}"));
                answer
            }
            Self::Exhausted { size, .. } => {
                let next_step = "ask again a little later, give the pool a larger size, or have it \
                                 make what is missing from the start (`when_exhausted`)";
                let mut answer = plain(ErrorCode::Capacity, self, next_step);
                answer.retry = Retry::After { after_ms: CAPACITY_RETRY_MS };
                answer.details.limit = Some("pool.size".to_owned());
                answer.details.limit_value = Some(u64::from(*size));
                answer
            }
            Self::Records(source) => of_records(self, source),
        }
    }
}
