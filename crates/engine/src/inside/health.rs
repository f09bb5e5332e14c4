//! How a sandbox is, as its guest says and as its silence says.

use super::Inside;
use crate::guest::GuestError;
use atoll_api::sandbox::{GuestHealth, SandboxHealth, SandboxHealthStatus, Use};
use atoll_protocol::request;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// A guest that takes longer to answer is called silent.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// From which share on something is nearly used up, in hundredths.
const NEARLY_PERCENT: u64 = 90;

impl Inside {
    /// Asks how the sandbox is, and waits for no longer than two seconds.
    pub async fn health(&self) -> SandboxHealth {
        let began_at = Instant::now();
        let told = timeout(ANSWERS_WITHIN, self.guest().state()).await;
        let answer_us = u64::try_from(began_at.elapsed().as_micros()).unwrap_or(u64::MAX);
        match told {
            Ok(Ok(told)) => judge(&told, answer_us),
            Ok(Err(error @ GuestError::Busy { .. })) => {
                unanswered(SandboxHealthStatus::Degraded, error.to_string())
            }
            Ok(Err(error)) => unanswered(SandboxHealthStatus::Silent, error.to_string()),
            Err(_) => {
                let reason = format!("its guest gave no answer within {ANSWERS_WITHIN:?}");
                unanswered(SandboxHealthStatus::Silent, reason)
            }
        }
    }
}

fn unanswered(status: SandboxHealthStatus, reason: String) -> SandboxHealth {
    SandboxHealth { status, reasons: vec![reason], answer_us: None, guest: None }
}

fn judge(told: &request::Guest, answer_us: u64) -> SandboxHealth {
    let reasons: Vec<String> =
        [("descriptors of its guest", told.descriptors), ("bytes for output", told.kept_bytes)]
            .into_iter()
            .filter(|(_, used)| is_nearly_used_up(*used))
            .map(|(what, used)| format!("{} of {} {what} are in use", used.used, used.limit))
            .collect();
    let status = match reasons.len() {
        0 => SandboxHealthStatus::Ok,
        _ => SandboxHealthStatus::Degraded,
    };
    let to_use = |told: request::Use| Use { used: told.used, limit: told.limit };
    let guest = GuestHealth {
        age_ms: told.age_ms,
        running_execs: told.running,
        processes: told.processes,
        descriptors: to_use(told.descriptors),
        kept_bytes: to_use(told.kept_bytes),
    };
    SandboxHealth { status, reasons, answer_us: Some(answer_us), guest: Some(guest) }
}

fn is_nearly_used_up(told: request::Use) -> bool {
    u128::from(told.used) * 100 > u128::from(told.limit) * u128::from(NEARLY_PERCENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nearly_used_up_is_named() {
        let told = |descriptors, kept_bytes| request::Guest {
            age_ms: 1,
            running: 2,
            processes: 3,
            descriptors: request::Use { used: descriptors, limit: 1000 },
            kept_bytes: request::Use { used: kept_bytes, limit: 1000 },
        };
        let well = judge(&told(900, 900), 7);
        assert_eq!((well.status, well.reasons.len()), (SandboxHealthStatus::Ok, 0));
        assert_eq!((well.answer_us, well.guest.unwrap().running_execs), (Some(7), 2));
        let ill = judge(&told(901, 0), 7);
        assert_eq!(ill.status, SandboxHealthStatus::Degraded);
        assert_eq!(ill.reasons, ["901 of 1000 descriptors of its guest are in use"]);
        assert_eq!(judge(&told(901, u64::MAX), 7).reasons.len(), 2);
    }
}
