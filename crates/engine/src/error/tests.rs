use super::*;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

const AFTER_100_MS: Retry = Retry::After { after_ms: BUSY_RETRY_MS };
const AFTER_1_S: Retry = Retry::After { after_ms: CAPACITY_RETRY_MS };

fn id() -> SandboxId {
    SandboxId::from_random([1; 10])
}

fn call() -> BackendError {
    let source = io::Error::other("permission denied on a path of the host");
    BackendError::Call { step: "freeze the processes", source }
}

fn full() -> RecordsError {
    RecordsError::Full { path: PathBuf::from("/var/lib/atoll/records.sqlite") }
}

#[track_caller]
fn check(answer: &ApiError, code: ErrorCode, took_effect: TookEffect, retry: Retry) {
    assert_eq!((answer.code, answer.took_effect, answer.retry), (code, took_effect, retry));
    assert!(!answer.message.is_empty() && !answer.message.ends_with('.'), "{}", answer.message);
    assert!(!answer.next_step.is_empty(), "{}", answer.message);
    // What the system said is the operator's business.
    assert!(!answer.message.contains("path of the host"), "{}", answer.message);
}

#[test]
fn each_error_of_an_operation_says_what_happened_and_what_to_do() {
    use TookEffect::{No, Unknown};
    let (id, tier, state) = (id(), Tier::Container, State::Running);
    let failed = |state, source| OperationError::Backend { id, verb: Verb::Pause, state, source };
    let hold = |source| OperationError::Hold { id, source };
    let too_long = HoldError::TooLong { asked: Duration::MAX, cap: Duration::ZERO };
    let records = |source| OperationError::Records { id, source };
    for (error, code, took_effect, retry) in [
        (OperationError::NotFound { id }, ErrorCode::NotFound, No, Retry::Unsafe),
        (
            OperationError::WrongState { id, verb: Verb::Pause, state },
            ErrorCode::WrongState,
            No,
            Retry::Unsafe,
        ),
        (
            OperationError::Unsupported { id, tier, capability: "pause" },
            ErrorCode::UnsupportedByTier,
            No,
            Retry::Unsafe,
        ),
        (OperationError::NotRunning { id, state }, ErrorCode::WrongState, No, Retry::Unsafe),
        (OperationError::Busy { id }, ErrorCode::Capacity, No, AFTER_100_MS),
        (OperationError::ShuttingDown, ErrorCode::NotReady, No, Retry::Safe),
        (hold(HoldError::TooMany), ErrorCode::Capacity, No, Retry::Unsafe),
        (hold(too_long), ErrorCode::RefusedByPolicy, No, Retry::Unsafe),
        (OperationError::TooManyExposures { id }, ErrorCode::Capacity, No, Retry::Unsafe),
        (failed(State::Running, call()), ErrorCode::Internal, No, Retry::Safe),
        (failed(State::Failed, call()), ErrorCode::Internal, Unknown, Retry::Safe),
        (
            failed(State::Stopped, BackendError::OpenFiles { step: "ask the spawner" }),
            ErrorCode::Capacity,
            No,
            AFTER_1_S,
        ),
        (failed(State::Stopped, BackendError::NotFound { id }), ErrorCode::Lost, No, Retry::Safe),
        (records(full()), ErrorCode::Capacity, No, Retry::Safe),
        (OperationError::Lost { id }, ErrorCode::Lost, Unknown, Retry::Unsafe),
    ] {
        check(&error.to_api(), code, took_effect, retry);
    }
}

#[test]
fn a_creation_that_failed_has_left_nothing() {
    let (id, tier) = (id(), Tier::Container);
    let name: SandboxName = "web".parse().unwrap();
    let backend = |source| CreateError::Backend { id, source: Arc::new(source) };
    let image = BackendError::Image { image: "x".to_owned(), reason: "it is not there".to_owned() };
    let full_disk = BackendError::DiskFull { step: "while the directory was made" };
    for (error, code, retry) in [
        (
            CreateError::Unsupported { tier, capability: "limit_disk" },
            ErrorCode::UnsupportedByTier,
            Retry::Unsafe,
        ),
        (CreateError::NameTaken { name, holder: id }, ErrorCode::Conflict, Retry::Unsafe),
        (CreateError::Capacity { sandboxes_max: 60 }, ErrorCode::Capacity, AFTER_1_S),
        (CreateError::ShuttingDown, ErrorCode::NotReady, Retry::Safe),
        (backend(image), ErrorCode::Invalid, Retry::Unsafe),
        (backend(full_disk), ErrorCode::Capacity, Retry::Safe),
        (backend(call()), ErrorCode::Internal, Retry::Safe),
        (CreateError::Records { id, source: Arc::new(full()) }, ErrorCode::Capacity, Retry::Safe),
        (CreateError::Cancelled { id }, ErrorCode::Conflict, Retry::Safe),
    ] {
        check(&error.to_api(), code, TookEffect::No, retry);
    }
}
