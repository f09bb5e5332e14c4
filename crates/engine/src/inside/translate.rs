//! Words that the API and the guest both have, each for the other.

use atoll_api::error::ErrorCode;
use atoll_api::octets::Octets;
use atoll_protocol::octets;
use atoll_protocol::problem::Code;

/// Neither side has a NUL.
pub(crate) fn to_guest(text: Octets) -> octets::Octets {
    octets::Octets::try_from(text.into_os_string()).expect("it has no NUL")
}

pub(super) fn to_api(text: octets::Octets) -> Octets {
    Octets::try_from(text.into_os_string()).expect("it has no NUL")
}

/// Kinds of failure of a guest, in the API's words.
pub(super) fn code(code: Code) -> ErrorCode {
    match code {
        Code::Invalid | Code::NotExecutable => ErrorCode::Invalid,
        Code::NotFound => ErrorCode::NotFound,
        Code::Conflict => ErrorCode::Conflict,
        Code::Denied => ErrorCode::RefusedByPolicy,
        Code::Limit | Code::NoSpace => ErrorCode::Capacity,
        Code::TimedOut => ErrorCode::TimedOut,
        Code::Unsupported => ErrorCode::UnsupportedByTier,
        Code::Failed => ErrorCode::Internal,
    }
}
