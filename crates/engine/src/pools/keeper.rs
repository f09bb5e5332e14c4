//! Makes members that are missing, and lets go of those that are of an old version of a template.

use super::book::Fit;
use super::{Member, fit};
use crate::clock::wait_until;
use crate::engine::{Engine, Shared};
use crate::error::chain;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// How often it is looked for members of what there is a newer version of. Who asks for one meanwhile
/// is not given an old one either.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Keeps pools full until the engine shuts down, and returns when nothing is left of members that
/// nobody was given.
pub(crate) async fn keep(shared: Arc<Shared>) {
    let mut owners = JoinSet::new();
    let mut closing = shared.closing();
    let mut drain_at = shared.clock.now();
    loop {
        while owners.try_join_next().is_some() {}
        let now = shared.clock.now();
        if drain_at <= now {
            drain(&shared);
            drain_at = now.after(LOOK_EVERY);
        }
        let (due, look_at) = shared.pools.book().due(now);
        for pool in due {
            match Engine::member(&shared, &pool) {
                Ok((owner, begin)) => drop(owners.spawn(owner.run(begin))),
                Err(error) => {
                    let cause = chain(&error);
                    tracing::warn!(pool = %pool.name, cause, "a member cannot be made");
                    shared.pools.book().failed(&pool.name, shared.clock.now(), cause);
                }
            }
        }
        let has_pools = shared.pools.book().count() > 0;
        let look_at = look_at.into_iter().chain(Some(drain_at).filter(|_| has_pools)).min();
        tokio::select! {
            () = shared.pools.changed.notified() => {}
            () = wait_until(&*shared.clock, look_at) => {}
            _ = closing.wait_for(|&is_closing| is_closing) => break,
        }
    }
    // Sandboxes that came of them are let go of as all others are, and stay.
    shared.pools.close();
    while owners.join_next().await.is_some() {}
}

/// Has members removed that are of what their pool is not made of any more.
fn drain(shared: &Shared) {
    let pools = shared.pools.book().all();
    for pool in pools {
        // What cannot be had any more is told by who tries to make another member of it.
        let Ok(wanted) = Engine::member_of(shared, &pool) else { continue };
        let is_stale = |member: &Member| fit(&member.record, &wanted) != Fit::Fits;
        let stale = shared.pools.book().drain(&pool.name, is_stale);
        if !stale.is_empty() {
            tracing::info!(pool = %pool.name, count = stale.len(), "members of an old version go");
        }
        stale.into_iter().for_each(Member::dismiss);
    }
}
