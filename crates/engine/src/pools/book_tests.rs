use super::*;
use atoll_api::pool::WhenExhausted;
use atoll_api::sandbox::CreateSandbox;
use proptest::prelude::*;

fn start() -> Timestamp {
    Timestamp::from_unix_us(1_000_000_000).unwrap()
}

fn later(ms: u64) -> Timestamp {
    start().after(Duration::from_millis(ms))
}

fn name() -> SandboxName {
    "web".parse().unwrap()
}

fn kept(size: u32, refill_ms: u64) -> KeptPool {
    KeptPool {
        name: name(),
        created_at: start(),
        size,
        refill_ms,
        when_exhausted: WhenExhausted::Refuse,
        sandbox: CreateSandbox::default(),
    }
}

fn book(size: u32, refill_ms: u64) -> Book<u32> {
    let mut book = Book::default();
    book.keep(kept(size, refill_ms), start());
    book
}

/// Makes what is due; gives how many that were.
fn fill(book: &mut Book<u32>, now: Timestamp) -> usize {
    let (due, _) = book.due(now);
    for (number, pool) in due.iter().enumerate() {
        assert_eq!(book.made(&pool.name, u32::try_from(number).unwrap()), None);
    }
    due.len()
}

#[test]
fn a_pool_is_filled_a_few_at_a_time_and_refilled_when_one_is_taken() {
    let mut book = book(6, 0);
    assert_eq!(book.due(start()).0.len(), 4, "more would starve the sandboxes that work");
    assert_eq!(book.due(start()), (vec![], None));
    for number in 0..4 {
        book.made(&name(), number);
    }
    assert_eq!(fill(&mut book, start()), 2);
    assert_eq!(fill(&mut book, start()), 0);
    let view = book.view(&name()).unwrap();
    assert_eq!((view.ready, view.making, view.given, view.missed), (6, 0, 0, 0));
    // The oldest goes first.
    assert_eq!(book.take(&name(), |_| Fit::Fits), (Ok(0), vec![]));
    assert_eq!(fill(&mut book, start()), 1);
    assert_eq!(book.view(&name()).unwrap().given, 1);
}

#[test]
fn the_rate_of_refilling_is_kept() {
    let mut book = book(3, 100);
    assert_eq!(fill(&mut book, start()), 1);
    assert_eq!(book.due(later(99)), (vec![], Some(later(100))));
    assert_eq!(fill(&mut book, later(100)), 1);
    assert_eq!(fill(&mut book, later(1000)), 1);
    assert_eq!(book.due(later(9000)), (vec![], None));
}

#[test]
fn a_pool_that_fails_is_tried_less_and_less_often_and_says_why() {
    let mut book = book(1, 0);
    let mut now = start();
    for seconds in [1, 2, 4, 8] {
        assert_eq!(book.due(now).0.len(), 1);
        book.failed(&name(), now, "no room".to_owned());
        let next = now.after(Duration::from_secs(seconds));
        assert_eq!(book.due(now), (vec![], Some(next)));
        now = next;
    }
    assert_eq!(book.view(&name()).unwrap().error.as_deref(), Some("no room"));
    assert_eq!(fill(&mut book, now), 1);
    assert_eq!(book.view(&name()).unwrap().error, None);
}

#[test]
fn none_is_given_that_does_not_fit() {
    let mut book = book(3, 0);
    fill(&mut book, start());
    assert_eq!(book.take(&name(), |_| Fit::Never("limits")).0, Err(NotGiven::Unfit("limits")));
    let old = |member: &u32| if *member < 2 { Fit::Stale } else { Fit::Fits };
    assert_eq!(book.take(&name(), old), (Ok(2), vec![0, 1]));
    assert_eq!(book.take(&name(), old).0, Err(NotGiven::Exhausted));
    let view = book.view(&name()).unwrap();
    assert_eq!((view.given, view.missed, view.ready), (1, 2, 0));
    assert_eq!(book.take(&"none".parse().unwrap(), old).0, Err(NotGiven::NoPool));
}

#[test]
fn what_nobody_wants_any_more_is_given_back() {
    let mut book = book(2, 0);
    assert_eq!(book.due(start()).0.len(), 2);
    assert_eq!(book.made(&name(), 1), None);
    assert!(book.set_size(&name(), 1).is_empty());
    assert_eq!(book.made(&name(), 2), Some(2));
    assert_eq!(book.set_size(&name(), 0), vec![1]);
    book.set_size(&name(), 1);
    fill(&mut book, start());
    assert_eq!(book.forget(&name()).unwrap().len(), 1);
    assert_eq!(book.made(&name(), 3), Some(3));
    book.keep(kept(1, 0), start());
    fill(&mut book, start());
    assert_eq!(book.close().len(), 1);
    assert_eq!(book.due(later(1)), (vec![], None));
    assert_eq!(book.put_back(&name(), 4), Some(4));
}

proptest! {
    /// However it goes, no member is there twice, none is lost, and there are never more than there are
    /// to be.
    #[test]
    fn members_are_given_once(steps in prop::collection::vec(0_u8..6, 1..200)) {
        let (mut book, mut next, mut now) = (book(3, 10), 0, start());
        let (mut there, mut gone) = (std::collections::BTreeSet::new(), 0);
        let mut begun = 0;
        for step in steps {
            match step {
                0 => begun += book.due(now).0.len(),
                1 if begun > 0 => {
                    begun -= 1;
                    match book.made(&name(), next) {
                        None => drop(there.insert(next)),
                        Some(_) => gone += 1,
                    }
                    next += 1;
                }
                2 if begun > 0 => {
                    begun -= 1;
                    book.failed(&name(), now, String::new());
                }
                3 => {
                    if let Ok(member) = book.take(&name(), |_| Fit::Fits).0 {
                        prop_assert!(there.remove(&member));
                        gone += 1;
                    }
                }
                4 => {
                    for member in book.drain(&name(), |member| member % 2 == 0) {
                        prop_assert!(there.remove(&member));
                        gone += 1;
                    }
                }
                _ => now = now.after(Duration::from_millis(7)),
            }
            let view = book.view(&name()).unwrap();
            prop_assert_eq!(usize::try_from(view.ready).unwrap(), there.len());
            prop_assert_eq!(usize::try_from(view.making).unwrap(), begun);
            prop_assert!(view.ready + view.making <= 3);
            prop_assert_eq!(next, gone + view.ready);
        }
    }
}
