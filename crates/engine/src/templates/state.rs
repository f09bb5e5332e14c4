//! What may follow on what in a build.
//!
//! ```text
//! waiting ──► building ──► ready
//!    │            ├──────► failed
//!    └────────────┴──────► cancelled
//! ```
//!
//! One that waits can fail too: a server that ends takes it along.

use atoll_api::template::BuildState;

/// Whether a build may come from one state to another.
pub fn may_follow(from: BuildState, to: BuildState) -> bool {
    use BuildState::{Building, Cancelled, Failed, Ready, Waiting};
    match from {
        Waiting => matches!(to, Building | Failed | Cancelled),
        Building => matches!(to, Ready | Failed | Cancelled),
        Ready | Failed | Cancelled => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use BuildState::{Building, Cancelled, Failed, Ready, Waiting};

    #[test]
    fn nothing_follows_on_an_end_and_nothing_is_ready_that_was_not_built() {
        let all = [Waiting, Building, Ready, Failed, Cancelled];
        for from in all {
            let next: Vec<_> = all.into_iter().filter(|to| may_follow(from, *to)).collect();
            assert_eq!(next.is_empty(), from.is_last(), "{from:?}");
            assert!(!next.contains(&from) && !next.contains(&Waiting), "{from:?}");
        }
        assert!(!may_follow(Waiting, Ready) && may_follow(Building, Ready));
    }
}
