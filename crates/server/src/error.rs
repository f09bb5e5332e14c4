//! What a request that failed is answered with.
//!
//! Callers get the [`ApiError`] and nothing else; what caused it goes to the log, under
//! the id of the request.

use atoll_api::error::{ApiError, ErrorBody, ErrorCode, ErrorDetails, Retry, TookEffect};
use atoll_api::key::Scope;
use atoll_api::sandbox::InvalidRequest;
use atoll_engine::archives::ArchiveError;
use atoll_engine::error::{
    CreateError, OperationError, PoolError, SnapshotError, VolumeError, chain, invalid, of_records,
};
use atoll_engine::inside::InsideError;
use atoll_engine::records::RecordsError;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::error::Error;

/// The status of every answer that is an error.
pub fn status(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::Invalid => StatusCode::BAD_REQUEST,
        ErrorCode::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorCode::Forbidden | ErrorCode::RefusedByPolicy => StatusCode::FORBIDDEN,
        ErrorCode::NotFound => StatusCode::NOT_FOUND,
        ErrorCode::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        ErrorCode::WrongState | ErrorCode::Conflict => StatusCode::CONFLICT,
        ErrorCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::UnsupportedByTier => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorCode::Capacity => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        ErrorCode::Lost | ErrorCode::Unreachable => StatusCode::BAD_GATEWAY,
        ErrorCode::NotReady => StatusCode::SERVICE_UNAVAILABLE,
        // Nothing is wrong with the server, and 408 is about requests that do not come.
        ErrorCode::TimedOut => StatusCode::CONFLICT,
    }
}

/// An error on its way to the caller.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) error: Box<ApiError>,
    /// What caused it, for the log.
    cause: Option<String>,
}

impl Failure {
    /// One that changed nothing, and that would happen again.
    pub(crate) fn new(
        code: ErrorCode,
        message: impl Into<String>,
        next_step: impl Into<String>,
    ) -> Self {
        let error = ApiError {
            code,
            message: message.into(),
            took_effect: TookEffect::No,
            retry: Retry::Unsafe,
            next_step: next_step.into(),
            details: ErrorDetails::default(),
        };
        Self { error: Box::new(error), cause: None }
    }

    /// A field that is wrong.
    pub(crate) fn field(field: &str, message: impl Into<String>) -> Self {
        let mut failure = Self::new(ErrorCode::Invalid, message, "correct the field and ask again");
        failure.error.details.field = Some(field.to_owned());
        failure
    }

    /// A limit of the server that is used up or exceeded.
    pub(crate) fn limit(
        code: ErrorCode,
        (limit, value): (&str, u64),
        message: impl Into<String>,
        next_step: &str,
    ) -> Self {
        let mut failure = Self::new(code, message, next_step);
        failure.error.details.limit = Some(limit.to_owned());
        failure.error.details.limit_value = Some(value);
        failure
    }

    pub(crate) fn scope(needed: Scope) -> Self {
        let message = format!("this needs a key of scope {needed}");
        let next_step = format!("use a key of scope {needed}, or have the operator do it");
        let mut failure = Self::new(ErrorCode::Forbidden, message, next_step);
        failure.error.details.scope = Some(needed);
        failure
    }

    #[must_use]
    pub(crate) fn after_ms(mut self, after_ms: u64) -> Self {
        self.error.retry = Retry::After { after_ms };
        self
    }

    #[must_use]
    pub(crate) fn caused_by(mut self, error: &dyn Error) -> Self {
        self.cause = Some(chain(error));
        self
    }

    pub(crate) fn of(error: ApiError, cause: &dyn Error) -> Self {
        Self { error: Box::new(error), cause: cause.source().map(chain) }
    }
}

impl From<CreateError> for Failure {
    fn from(error: CreateError) -> Self {
        Self::of(error.to_api(), &error)
    }
}

impl From<OperationError> for Failure {
    fn from(error: OperationError) -> Self {
        Self::of(error.to_api(), &error)
    }
}

impl From<SnapshotError> for Failure {
    fn from(error: SnapshotError) -> Self {
        Self::of(error.to_api(), &error)
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        Self::of(error.to_api(), &error)
    }
}

impl From<VolumeError> for Failure {
    fn from(error: VolumeError) -> Self {
        Self::of(error.to_api(), &error)
    }
}

impl From<ArchiveError> for Failure {
    fn from(error: ArchiveError) -> Self {
        Self::of(error.to_api(), &error)
    }
}

impl From<InsideError> for Failure {
    fn from(error: InsideError) -> Self {
        Self::of(error.to_api(), &error)
    }
}

impl From<InvalidRequest> for Failure {
    fn from(error: InvalidRequest) -> Self {
        Self::of(invalid(&error), &error)
    }
}

impl From<RecordsError> for Failure {
    fn from(error: RecordsError) -> Self {
        let mut answer = of_records(&error, &error);
        // Paths of the host are the operator's business.
        answer.message = "could not use the records".to_owned();
        Self { error: Box::new(answer), cause: Some(chain(&error)) }
    }
}

impl Failure {
    /// Tells the log what callers are not told.
    pub(crate) fn log(&self) {
        let Self { error, cause } = self;
        let code = error.code;
        let cause = cause.as_deref().unwrap_or_default();
        match code {
            ErrorCode::Internal | ErrorCode::Lost => {
                tracing::error!(code = code.as_str(), message = %error, cause, "request failed");
            }
            ErrorCode::NotFound
            | ErrorCode::WrongState
            | ErrorCode::Capacity
            | ErrorCode::NotReady
            | ErrorCode::TimedOut
            | ErrorCode::Unreachable
            | ErrorCode::RefusedByPolicy
            | ErrorCode::UnsupportedByTier
            | ErrorCode::Invalid
            | ErrorCode::TooLarge
            | ErrorCode::MethodNotAllowed
            | ErrorCode::Unauthenticated
            | ErrorCode::Forbidden
            | ErrorCode::Conflict => {
                tracing::debug!(code = code.as_str(), cause, "request refused");
            }
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        self.log();
        let error = self.error;
        let (code, retry) = (error.code, error.retry);
        let mut response = crate::answer::json(status(code), &ErrorBody { error: *error });
        let headers = response.headers_mut();
        if code == ErrorCode::Unauthenticated {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Retry::After { after_ms } = retry {
            headers.insert(header::RETRY_AFTER, after_ms.div_ceil(1000).into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_with_what_caused_it() {
        let id = "sbx_0001020304050607abff".parse().unwrap();
        let source = atoll_engine::backend::BackendError::Call {
            step: "freeze the processes",
            source: std::io::Error::from_raw_os_error(5),
        };
        let error = OperationError::Backend {
            id,
            verb: atoll_engine::state::Verb::Pause,
            state: atoll_api::sandbox::State::Running,
            source,
        };
        let failure = Failure::from(error);
        insta::assert_snapshot!(
            failure.error,
            @"could not pause sandbox sbx_0001020304050607abff, which is running now"
        );
        insta::assert_snapshot!(
            failure.cause.unwrap(),
            @"could not freeze the processes: Input/output error (os error 5)"
        );
    }

    #[test]
    fn a_wait_is_said_in_whole_seconds_too() {
        let failure = Failure::limit(ErrorCode::Capacity, ("n_max", 1), "m", "n").after_ms(1200);
        let response = failure.into_response();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[header::RETRY_AFTER], "2");
    }
}
