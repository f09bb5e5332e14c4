//! Why an image could not be had, and what the caller is told.

use crate::error::{chain, hopeless, is_full, plain};
use atoll_api::error::{ApiError, ErrorCode, Retry};
use atoll_store::catalog::CatalogError;
use atoll_store::image::UnpackError;
use atoll_store::import::ImportError;
use atoll_store::layer::LayerError;
use atoll_store::oci::{DocumentError, ReferenceError};
use atoll_store::room::NoRoom;
use std::sync::Arc;
use std::time::Duration;

/// Why an image could not be had.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ImageError {
    /// The name is none.
    #[error(transparent)]
    Name(ReferenceError),
    /// There is no such image, here or where it was looked for.
    #[error("there is no image {name:?}")]
    NotFound {
        /// What was asked for.
        name: String,
    },
    /// It is not here, and was not to be pulled.
    #[error("the image {name:?} is not here, and was not to be pulled")]
    NotHere {
        /// What was asked for.
        name: String,
    },
    /// Something was made of it.
    #[error("the image {name:?} is used by {}", users.join(", "))]
    InUse {
        /// What was asked for.
        name: String,
        /// By whom.
        users: Vec<String>,
    },
    /// The registry does not give it to us.
    #[error("the registry {registry} does not give {name:?} to us")]
    Unauthorised {
        /// Which registry.
        registry: String,
        /// What was asked for.
        name: String,
    },
    /// The registry does not answer.
    #[error("the registry {registry} cannot be reached: {reason}")]
    Unreachable {
        /// Which registry.
        registry: String,
        /// Why not.
        reason: String,
    },
    /// The registry wants fewer requests.
    #[error("the registry {registry} takes no more requests for now")]
    Limited {
        /// Which registry.
        registry: String,
        /// When it may take some again.
        after: Duration,
    },
    /// The registry answers something else.
    #[error("the registry {registry} answers {what}")]
    Answer {
        /// Which registry.
        registry: String,
        /// What it answers.
        what: String,
    },
    /// What describes it is not understood.
    #[error("the image {name:?} cannot be used: {}", chain(&**source))]
    Document {
        /// What was asked for.
        name: String,
        /// Why not.
        source: Arc<DocumentError>,
    },
    /// It is larger than is taken.
    #[error("the image {name:?} has {bytes} bytes; {bytes_max} are the most")]
    TooLarge {
        /// What was asked for.
        name: String,
        /// So large it is, packed.
        bytes: u64,
        /// So large it may be.
        bytes_max: u64,
    },
    /// There is no room for it.
    #[error("there is no room for the image: {source}")]
    NoRoom {
        /// What is needed, and what there is.
        source: Arc<NoRoom>,
    },
    /// It is not what its digest says.
    #[error("the image is damaged, or somebody changed it: {reason}")]
    Damaged {
        /// What is not.
        reason: String,
    },
    /// It holds what is refused.
    #[error("the image cannot be used: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
    /// The images of this server cannot be used.
    #[error("the images here cannot be used: {reason}")]
    Store {
        /// Why.
        reason: String,
    },
    /// It failed a moment ago, and is not tried again yet.
    #[error("{source}; it is tried again in {} ms at the earliest", after.as_millis())]
    Again {
        /// What failed then.
        source: Box<Self>,
        /// When it may be tried again.
        after: Duration,
    },
    /// Whoever had begun it is gone.
    #[error("the pull was broken off: {reason}")]
    BrokenOff {
        /// Why.
        reason: String,
    },
}

impl ImageError {
    pub(super) fn of_import(error: ImportError) -> Self {
        match error {
            ImportError::Layer(error) => Self::of_layer(error),
            ImportError::Catalog(error) => Self::of_catalog(error),
            ImportError::NoRoom(source) => Self::NoRoom { source: Arc::new(source) },
            ImportError::Bundle { .. } | ImportError::NotARoot | ImportError::Read { .. } => {
                Self::Refused { reason: chain(&error) }
            }
        }
    }

    pub(crate) fn of_layer(error: LayerError) -> Self {
        match error {
            LayerError::Unpack { source: UnpackError::NoRoom(source), .. } => {
                Self::NoRoom { source: Arc::new(source) }
            }
            LayerError::Unpack { .. } if is_full(&error) => {
                Self::Store { reason: "the disk is full".to_owned() }
            }
            LayerError::Unpack { .. } => Self::Refused { reason: chain(&error) },
            LayerError::Digest { .. } | LayerError::Length { .. } => {
                Self::Damaged { reason: chain(&error) }
            }
            LayerError::Store { .. } | LayerError::Gone { .. } => {
                Self::Store { reason: chain(&error) }
            }
        }
    }

    pub(super) fn of_catalog(error: CatalogError) -> Self {
        match error {
            CatalogError::Ambiguous { .. } => Self::Refused { reason: chain(&error) },
            CatalogError::Io { .. } => Self::Store { reason: chain(&error) },
        }
    }

    /// Whether trying at once again would only cost time.
    pub(super) fn is_lasting(&self) -> bool {
        !matches!(self, Self::BrokenOff { .. } | Self::NoRoom { .. } | Self::Store { .. })
    }

    /// What the caller is answered.
    pub fn to_api(&self) -> ApiError {
        let mut answer = match self {
            Self::Name(_) | Self::Document { .. } | Self::Refused { .. } | Self::Damaged { .. } => {
                hopeless(ErrorCode::Invalid, self, "name another image")
            }
            Self::NotFound { .. } => {
                hopeless(ErrorCode::NotFound, self, "see `atoll image list`, or name another image")
            }
            Self::NotHere { .. } => {
                let next_step = "pull it first (`atoll image pull`), or have it pulled";
                hopeless(ErrorCode::NotFound, self, next_step)
            }
            Self::InUse { .. } => {
                hopeless(ErrorCode::Conflict, self, "delete what was made of it first")
            }
            Self::Unauthorised { .. } => {
                let next_step = "look whether the image is there, and have the operator name \
                                 credentials for that registry (--registry-config)";
                hopeless(ErrorCode::Forbidden, self, next_step)
            }
            Self::Unreachable { .. } => {
                let next_step =
                    "see whether the server's machine reaches the registry, then ask again";
                plain(ErrorCode::Unreachable, self, next_step)
            }
            Self::Limited { after, .. } => {
                let mut answer = plain(ErrorCode::Capacity, self, "ask again later");
                answer.retry = after_ms(*after);
                answer.details.limit = Some("registry".to_owned());
                answer
            }
            Self::Answer { .. } => plain(ErrorCode::Unreachable, self, "ask again later"),
            Self::TooLarge { bytes_max, .. } => {
                let mut answer = hopeless(ErrorCode::TooLarge, self, "name a smaller image");
                answer.details.limit = Some("image_bytes".to_owned());
                answer.details.limit_value = Some(*bytes_max);
                answer
            }
            Self::NoRoom { source } => return no_room(self, source),
            Self::Store { .. } => {
                plain(ErrorCode::Internal, self, "ask again; if it stays so, see the server's log")
            }
            Self::Again { source, after } => {
                let mut answer = source.to_api();
                answer.message = self.to_string();
                answer.retry = after_ms(*after);
                return answer;
            }
            Self::BrokenOff { .. } => plain(ErrorCode::Conflict, self, "ask again if it is wanted"),
        };
        if matches!(answer.code, ErrorCode::Invalid) {
            answer.details.field = Some("image".to_owned());
        }
        answer.details.reason = self.reason().map(str::to_owned);
        answer
    }

    /// What of several things the code can mean; a stable word.
    fn reason(&self) -> Option<&'static str> {
        match self {
            Self::NotFound { .. } => Some("image-not-found"),
            Self::NotHere { .. } => Some("image-not-here"),
            Self::InUse { .. } => Some("image-in-use"),
            Self::Unauthorised { .. } => Some("registry-unauthorised"),
            Self::Unreachable { .. } => Some("registry-unreachable"),
            Self::Answer { .. } => Some("registry-answer"),
            Self::Limited { .. } => Some("registry-limited"),
            Self::Document { .. } => Some("image-not-understood"),
            Self::Refused { .. } => Some("image-refused"),
            Self::Damaged { .. } => Some("image-damaged"),
            Self::Again { source, .. } => source.reason(),
            Self::Name(_)
            | Self::TooLarge { .. }
            | Self::NoRoom { .. }
            | Self::Store { .. }
            | Self::BrokenOff { .. } => None,
        }
    }
}

fn after_ms(after: Duration) -> Retry {
    Retry::After { after_ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX) }
}

/// What is needed and what is free, in numbers too.
fn no_room(error: &ImageError, source: &NoRoom) -> ApiError {
    let next_step = "remove images that are not needed (`atoll image prune`), then ask again";
    let mut answer = plain(ErrorCode::Capacity, error, next_step);
    let details = &mut answer.details;
    match source {
        NoRoom::Disk { needed_bytes, free_bytes, kept_bytes } => {
            details.limit = Some("disk_bytes".to_owned());
            details.needed_bytes = Some(*needed_bytes);
            details.free_bytes = Some(free_bytes.saturating_sub(*kept_bytes));
        }
        NoRoom::Quota { needed_bytes, used_bytes, quota_bytes } => {
            details.limit = Some("images_bytes_max".to_owned());
            details.limit_value = Some(*quota_bytes);
            details.needed_bytes = Some(*needed_bytes);
            details.free_bytes = Some(quota_bytes.saturating_sub(*used_bytes));
        }
        NoRoom::Unknown(_) => answer.code = ErrorCode::Internal,
    }
    answer
}

impl From<CatalogError> for ImageError {
    fn from(error: CatalogError) -> Self {
        Self::of_catalog(error)
    }
}
