//! How much a server takes on, by the descriptors that it may have.
//!
//! What runs out of descriptors fails in the middle of something. So there are fewer
//! connections, streams and sandboxes than would need them all, and whoever comes on top
//! waits or is told which limit is met.

use crate::error::CliError;
use atoll_server::Config;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are for nobody: files of ours, and what is open for a moment.
const RESERVED: u64 = 64;

/// Fewest descriptors that a server can work with.
const FEWEST: u64 = 128;

/// Raises the limit of open files as far as this process may, and gives it.
pub(super) fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let limit = if setrlimit(Resource::Nofile, raised).is_ok() { raised } else { limit };
    limit.current.unwrap_or(u64::MAX)
}

/// Has the kernel write no core of this process: there are secrets in its memory. A limit of 1 also
/// holds where cores are piped to a program, which one of 0 does not (core(5); for 1
/// do_coredump in the kernel's fs/coredump.c).
pub(super) fn without_core() {
    let limit = getrlimit(Resource::Core);
    let most = limit.maximum.unwrap_or(u64::MAX);
    // Lowering what one may raise again is refused to nobody.
    setrlimit(Resource::Core, Rlimit { current: Some(most.min(1)), ..limit }).unwrap_or_default();
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Capacity {
    pub(super) sandboxes_max: usize,
    /// On each socket.
    connections_max: usize,
    streams_max: usize,
}

impl Capacity {
    /// What `descriptors` are enough for, with this many `sockets`.
    ///
    /// A sandbox that runs has one, a connection has one, a stream may have one more to
    /// the guest. Half is for sandboxes, a quarter for connections and one for streams.
    pub(super) fn of(
        descriptors: u64,
        sockets: usize,
        sandboxes_max: Option<usize>,
    ) -> Result<Self, CliError> {
        let hint = "raise the limit of open files (`ulimit -n`, or LimitNOFILE= of systemd)";
        if descriptors < FEWEST {
            let message =
                format!("{descriptors} open files are fewer than the {FEWEST} that a server needs");
            return Err(CliError::new(message).hint(hint));
        }
        let room = usize::try_from(descriptors - RESERVED).unwrap_or(usize::MAX);
        let usual = Config::default();
        let sandboxes = room / 2;
        if let Some(wanted) = sandboxes_max.filter(|wanted| *wanted > sandboxes) {
            let message = format!(
                "{descriptors} open files are enough for {sandboxes} sandboxes, and not for {wanted}"
            );
            return Err(CliError::new(message).hint(hint));
        }
        let usual_sandboxes = atoll_engine::Config::default().sandboxes_max;
        Ok(Self {
            sandboxes_max: sandboxes_max.unwrap_or(usual_sandboxes.min(sandboxes)),
            connections_max: usual.connections_max.min((room / 4 / sockets).max(1)),
            streams_max: usual.streams_max.min(room / 4),
        })
    }

    /// The settings of the server that follow.
    pub(super) fn of_server(self) -> Config {
        Config {
            connections_max: self.connections_max,
            streams_max: self.streams_max,
            ..Config::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_descriptors_are_enough_for_everything() {
        let capacity = Capacity::of(u64::MAX, 3, None).unwrap();
        let usual = Config::default();
        assert_eq!(capacity.sandboxes_max, atoll_engine::Config::default().sandboxes_max);
        assert_eq!(capacity.connections_max, usual.connections_max);
        assert_eq!(capacity.streams_max, usual.streams_max);
        assert_eq!(Capacity::of(u64::MAX, 1, Some(5000)).unwrap().sandboxes_max, 5000);
    }

    #[test]
    fn few_are_shared_out() {
        for descriptors in FEWEST..5000 {
            for sockets in 1..5 {
                let capacity = Capacity::of(descriptors, sockets, None).unwrap();
                let all = capacity.sandboxes_max
                    + capacity.connections_max * sockets
                    + capacity.streams_max;
                assert!(all as u64 + RESERVED <= descriptors, "{capacity:?} of {descriptors}");
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused_and_not_lowered() {
        assert_eq!(Capacity::of(256, 1, Some(96)).unwrap().sandboxes_max, 96);
        let error = Capacity::of(256, 1, Some(97)).unwrap_err();
        assert!(error.text().contains("enough for 96 sandboxes"), "{}", error.text());
        let error = Capacity::of(127, 1, None).unwrap_err();
        assert!(error.text().contains("fewer than the 128"), "{}", error.text());
    }
}
