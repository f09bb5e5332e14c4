//! Many callers, and callers that go away.

use crate::support::{World, all, live, live_in_parallel, named, state};
use atoll_api::error::ErrorCode;
use atoll_api::sandbox::{CreateSandbox, EventKind, ListSandboxes, State};
use atoll_engine::backend::fake::{Call, Moment};
use atoll_engine::error::{CreateError, OperationError};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Poll;
use tokio::task::JoinSet;

#[test]
fn a_hundred_callers_get_the_one_sandbox_of_a_name() {
    let world = World::new();
    live_in_parallel(async {
        let engine = Arc::new(world.start().await);
        let held = world.host.hold(Call::Create, Moment::Before);
        let mut callers = JoinSet::new();
        for _ in 0..100 {
            let engine = engine.clone();
            callers.spawn(async move { engine.get_or_create(named("web")).await });
        }
        held.reached(1).await;
        held.open();
        let got: Vec<_> = callers.join_all().await.into_iter().map(Result::unwrap).collect();
        let ids: BTreeSet<_> = got.iter().map(|got| got.sandbox.id).collect();
        assert_eq!(ids.len(), 1);
        assert_eq!(got.iter().filter(|got| got.is_new).count(), 1);
        assert!(got.iter().all(|got| got.sandbox.state == State::Running));
        assert_eq!((world.host.count(Call::Create), world.host.ids().len()), (1, 1));
        world.nothing_is_left_behind(&engine);
    });
}

#[test]
fn those_who_wait_for_a_creation_learn_that_it_failed() {
    let world = World::new();
    live_in_parallel(async {
        let engine = Arc::new(world.start().await);
        world.host.fail(Call::Start, Moment::After);
        let mut callers = JoinSet::new();
        for _ in 0..20 {
            let engine = engine.clone();
            callers.spawn(async move { engine.get_or_create(named("web")).await });
        }
        for got in callers.join_all().await {
            assert!(matches!(got, Err(CreateError::Backend { .. })), "{got:?}");
        }
        world.nothing_is_left_behind(&engine);
        assert_eq!(all(&engine), []);
    });
}

/// Begins `future` and drops it when it has begun to wait.
async fn begun_and_dropped<T: std::fmt::Debug>(future: impl Future<Output = T>) {
    let mut future = Box::pin(future);
    std::future::poll_fn(|context| {
        let poll = future.as_mut().poll(context);
        assert!(poll.is_pending(), "{poll:?}");
        Poll::Ready(())
    })
    .await;
}

#[test]
fn who_goes_away_does_not_stop_what_was_begun() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(CreateSandbox::default()).await.unwrap().id;
        let held = world.host.hold(Call::Freeze, Moment::Before);
        begun_and_dropped(engine.pause(id)).await;
        held.reached(1).await;
        assert_eq!(state(&engine, id), State::Pausing);
        held.open();
        // The next request is answered after the first one has come to its end.
        assert_eq!(engine.pause(id).await.unwrap().state, State::Paused);
        assert_eq!(world.host.count(Call::Freeze), 1);
    });
}

#[test]
fn a_creation_that_nobody_waits_for_is_removed() {
    for call in [Call::Create, Call::Start] {
        let world = World::new();
        live(async {
            let engine = world.start().await;
            let held = world.host.hold(call, Moment::Midway);
            let mut creating = Box::pin(engine.create(named("web")));
            tokio::select! {
                made = &mut creating => panic!("{made:?}"),
                () = held.reached(1) => {}
            }
            drop(creating);
            held.open();
            world.host.until(|host| host.ids().is_empty()).await;
            world.host.heal();
            // The name may be on its way back; who wants any sandbox of it need not know.
            let got = engine.get_or_create(named("web")).await.unwrap();
            assert!(got.is_new);
            world.nothing_is_left_behind(&engine);
        });
    }
}

#[test]
fn a_creation_goes_on_for_those_who_still_wait() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let held = world.host.hold(Call::Create, Moment::Midway);
        let mut first = Box::pin(engine.get_or_create(named("web")));
        tokio::select! {
            made = &mut first => panic!("{made:?}"),
            () = held.reached(1) => {}
        }
        let mut second = Box::pin(engine.get_or_create(named("web")));
        assert!(still_waits(&mut second).await);
        drop(first);
        held.open();
        let got = second.await.unwrap();
        assert_eq!((got.is_new, got.sandbox.state), (false, State::Running));
    });
}

/// Looks once whether a future still waits.
async fn still_waits<T>(future: &mut (impl Future<Output = T> + Unpin)) -> bool {
    std::future::poll_fn(|context| {
        Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_pending())
    })
    .await
}

#[test]
fn a_deletion_cancels_a_creation() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let held = world.host.hold(Call::Create, Moment::Midway);
        let delete = async {
            held.reached(1).await;
            let mut deletion = Box::pin(engine.delete(all(&engine)[0].id));
            assert!(still_waits(&mut deletion).await);
            // On one thread the owner, which has mail, comes next.
            tokio::task::yield_now().await;
            held.open();
            deletion.await
        };
        let (made, deleted) = tokio::join!(engine.create(named("web")), delete);
        assert!(matches!(made, Err(CreateError::Cancelled { .. })), "{made:?}");
        assert_eq!(deleted.unwrap().state, State::Deleted);
        assert_eq!((world.host.count(Call::Start), all(&engine)), (0, vec![]));
        world.settled(&engine).await;
    });
}

#[test]
fn a_burst_beyond_the_capacity_leaves_what_is_listed() {
    let mut world = World::new();
    world.config.sandboxes_max = 60;
    live_in_parallel(async {
        let engine = Arc::new(world.start().await);
        let mut callers = JoinSet::new();
        for n in 0..100 {
            let engine = engine.clone();
            callers.spawn(async move {
                let creating = engine.create(named(&format!("box-{n}")));
                if n % 3 != 0 {
                    return Some(creating.await);
                }
                // Goes away somewhere in the middle.
                let mut creating = Box::pin(creating);
                for _ in 0..n {
                    if !still_waits(&mut creating).await {
                        return None;
                    }
                    tokio::task::yield_now().await;
                }
                None
            });
        }
        let mut made = 0;
        for outcome in callers.join_all().await.into_iter().flatten() {
            match outcome {
                Ok(_) => made += 1,
                Err(error) => assert_eq!(error.to_api().code, ErrorCode::Capacity, "{error:?}"),
            }
        }
        assert!(made > 0 && world.host.most_at_once() <= 60, "{made}");
        // What nobody waits for any more comes to its end too.
        Arc::into_inner(engine).unwrap().shutdown().await;
        let engine = world.start().await;
        world.settled(&engine).await;
        world.nothing_is_left_behind(&engine);
        let listed = all(&engine);
        assert!((made..=60).contains(&listed.len()), "{made} of {}", listed.len());
        assert!(listed.iter().all(|one| one.state == State::Running), "{listed:?}");
    });
}

#[test]
fn too_many_requests_at_once_are_told_so() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(CreateSandbox::default()).await.unwrap().id;
        let held = world.host.hold(Call::Freeze, Moment::Before);
        begun_and_dropped(engine.pause(id)).await;
        held.reached(1).await;
        let busy = loop {
            let mut waiting = Box::pin(engine.pause(id));
            let poll = std::future::poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context)));
            match poll.await {
                Poll::Pending => tokio::task::yield_now().await,
                Poll::Ready(answer) => break answer.unwrap_err(),
            }
        };
        assert!(matches!(busy, OperationError::Busy { .. }), "{busy:?}");
        assert_eq!(busy.to_api().code, ErrorCode::Capacity);
        held.open();
        engine.shutdown().await;
        assert_eq!(world.host.count(Call::Freeze), 1);
    });
}

#[test]
fn lists_are_filtered_and_paged_whatever_comes_and_goes() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let mut ids = Vec::new();
        for n in 0..25 {
            let labels = [("parity".to_owned(), (n % 2).to_string())].into();
            let request = CreateSandbox { labels, ..CreateSandbox::default() };
            ids.push(engine.create(request).await.unwrap().id);
            world.clock.advance(std::time::Duration::from_millis(1));
        }
        let mut request = ListSandboxes { page_count: Some(10), ..ListSandboxes::default() };
        let first = engine.list(&request).unwrap();
        // The last one of the page, at which the cursor points, goes away.
        engine.delete(ids[9]).await.unwrap();
        request.cursor = first.next;
        let second = engine.list(&request).unwrap();
        request.cursor = second.next;
        let third = engine.list(&request).unwrap();
        assert_eq!(third.next, None);
        let pages = [first, second, third].into_iter().flat_map(|page| page.sandboxes);
        assert_eq!(pages.map(|sandbox| sandbox.id).collect::<Vec<_>>(), ids);

        engine.stop(ids[3]).await.unwrap();
        let odd_and_down = ListSandboxes {
            labels: [("parity".to_owned(), "1".to_owned())].into(),
            states: vec![State::Stopped, State::Paused],
            ..ListSandboxes::default()
        };
        let found = engine.list(&odd_and_down).unwrap().sandboxes;
        assert_eq!(found.iter().map(|sandbox| sandbox.id).collect::<Vec<_>>(), [ids[3]]);
    });
}

#[test]
fn events_are_told_and_kept_in_one_order() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let mut listener = engine.subscribe();
        let id = engine.create(named("web")).await.unwrap().id;
        engine.pause(id).await.unwrap();
        let kept = engine.events(0, 100).await.unwrap();
        assert_eq!(kept.len(), 4);
        for event in &kept {
            assert_eq!(listener.recv().await.as_ref(), Ok(event));
        }
        let after = engine.events(kept[1].seq, 1).await.unwrap();
        assert_eq!(after[0].what, EventKind::Pausing);
    });
}
