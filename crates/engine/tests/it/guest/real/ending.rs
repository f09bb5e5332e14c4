//! The guest's end, in order and not.

use super::{ran, sh, with_sandbox};
use atoll_engine::guest::{Cut, GuestError, Known, Output};
use atoll_protocol::exec::Outcome;
use std::time::{Duration, Instant};

#[test]
fn a_guest_that_is_killed_is_lost_at_once() {
    with_sandbox("ending::a_guest_that_is_killed_is_lost_at_once", |real| async move {
        let mut output = real.guest.start(sh("exec yes")).await.unwrap().output;
        let mut silent = real.guest.start(sh("exec sleep 600")).await.unwrap().output;
        let guest = real.guest.clone();
        let attending = tokio::spawn(async move { guest.attend().await });
        for _ in 0..100 {
            assert!(matches!(output.next().await, Ok(Some(Output::Bytes { .. }))));
        }
        real.kill();
        let killed = Instant::now();
        let lost = loop {
            match output.next().await {
                Ok(Some(Output::Bytes { .. })) => {}
                other => break other,
            }
        };
        for lost in [lost.map(drop), silent.next().await.map(drop)] {
            assert!(
                matches!(lost, Err(GuestError::Lost { known: Known::Answered, cut: Cut::Ended })),
                "{lost:?}"
            );
        }
        attending.await.unwrap().unwrap_err();
        assert!(killed.elapsed() < Duration::from_secs(1), "{:?}", killed.elapsed());
        // Its sockets end one after the other.
        let gone = loop {
            match real.guest.state().await {
                Err(GuestError::Lost { known: Known::Asked, .. }) => {}
                other => break other,
            }
        };
        assert!(matches!(gone, Err(GuestError::NotThere { .. })), "{gone:?}");
    });
}

#[test]
fn a_guest_that_is_stopped_says_so() {
    with_sandbox("ending::a_guest_that_is_stopped_says_so", |real| async move {
        let script = "trap 'echo asked; exit 5' TERM; echo ready; while :; do sleep 0.01; done";
        let mut followed = real.guest.start(sh(script)).await.unwrap();
        assert!(matches!(followed.output.next().await, Ok(Some(Output::Bytes { .. }))));
        let used = || async { real.guest.state().await.unwrap().descriptors.used };
        let before = used().await;
        let stopping = async {
            // One who comes when the guest has gone hears nothing.
            while used().await <= before {}
            real.guest.stop(Duration::from_secs(10)).await
        };
        let (attended, stopped, ran) = tokio::join!(real.guest.attend(), stopping, ran(followed));
        stopped.unwrap();
        attended.unwrap();
        let ran = ran.unwrap();
        assert_eq!((&ran.stdout[..], ran.outcome()), (&b"asked\n"[..], Outcome::Exited(5)));
    });
}
