use super::*;
use atoll_api::id::ExecId;
use atoll_api::sandbox::{Hold, HoldCause, Limits};
use atoll_api::service::Service;

const HOLD_MAX: Duration = Duration::from_secs(3600);
const SERVICE_HOLD_MAX: Duration = Duration::from_secs(300);

fn at(seconds: u64) -> Timestamp {
    Timestamp::UNIX_EPOCH.after(Duration::from_secs(seconds))
}

fn exec() -> HoldCause {
    HoldCause::Exec { exec_id: ExecId::from_random([1; 10]) }
}

fn facts(state: State) -> Facts {
    Facts {
        state,
        state_since: at(0),
        stopped_at: None,
        created_at: at(0),
        lease_from: at(0),
        is_overdrawn: false,
        has_full_volume: false,
        works_until: at(0),
    }
}

const IDLE_10_S: Lifecycle = Lifecycle {
    lease_ms: None,
    idle_stop_ms: Some(10_000),
    archive_after_ms: None,
    delete_after_ms: None,
    max_lifetime_ms: None,
};

#[track_caller]
fn check(
    now_s: u64,
    lifecycle: &Lifecycle,
    facts: &Facts,
    due: Option<(Verb, &'static str)>,
    look_at_s: Option<u64>,
) {
    let due = due.map(|(verb, reason)| Due { verb, reason });
    let expect = Decision { due, look_at: look_at_s.map(at) };
    assert_eq!(decide(at(now_s), lifecycle, facts), expect);
}

#[test]
fn without_times_nothing_is_ever_due() {
    for state in State::ALL {
        check(1_000_000, &Lifecycle::default(), &facts(state), None, None);
    }
}

#[test]
fn each_time_ends_at_its_own_moment() {
    let stop = Some((Verb::Stop, "idle_stop_ms"));
    check(9, &IDLE_10_S, &facts(State::Running), None, Some(10));
    check(10, &IDLE_10_S, &facts(State::Running), stop, None);
    check(10, &IDLE_10_S, &facts(State::Paused), None, None);
    check(10, &IDLE_10_S, &facts(State::Stopping), None, None);

    let lease = Lifecycle { lease_ms: Some(5_000), ..IDLE_10_S };
    let renewed = Facts { lease_from: at(4), ..facts(State::Running) };
    check(6, &lease, &renewed, None, Some(9));
    check(9, &lease, &renewed, Some((Verb::Delete, "lease_ms")), Some(10));
    check(9, &lease, &facts(State::Pausing), None, None);

    let later = Lifecycle { delete_after_ms: Some(60_000), ..Lifecycle::default() };
    let stopped = Facts { state_since: at(100), ..facts(State::Stopped) };
    check(159, &later, &stopped, None, Some(160));
    check(160, &later, &stopped, Some((Verb::Delete, "delete_after_ms")), None);
    check(160, &later, &facts(State::Running), None, None);
}

#[test]
fn what_is_stopped_is_archived_in_its_time_and_deleted_in_the_same_count() {
    let archive = Some((Verb::Archive, "archive_after_ms"));
    let times = Lifecycle {
        archive_after_ms: Some(10_000),
        delete_after_ms: Some(60_000),
        ..Lifecycle::default()
    };
    let stopped = Facts { state_since: at(100), ..facts(State::Stopped) };
    check(109, &times, &stopped, None, Some(110));
    check(110, &times, &stopped, archive, Some(160));
    check(160, &times, &stopped, Some((Verb::Delete, "delete_after_ms")), None);
    for state in [State::Running, State::Paused, State::Stopping, State::Resuming] {
        check(1000, &times, &Facts { stopped_at: Some(at(1)), ..facts(state) }, None, None);
    }
    // It came there later than it was stopped.
    let archived =
        Facts { state_since: at(150), stopped_at: Some(at(100)), ..facts(State::Archived) };
    check(159, &times, &archived, None, Some(160));
    check(160, &times, &archived, Some((Verb::Delete, "delete_after_ms")), None);
    let failed = Facts { state_since: at(150), ..facts(State::Failed) };
    check(160, &times, &failed, None, Some(210));
    let alone = Lifecycle { delete_after_ms: None, ..times };
    check(1000, &alone, &archived, None, None);
}

#[test]
fn a_renewed_lease_does_not_outlive_the_longest_life() {
    let lifecycle =
        Lifecycle { lease_ms: Some(5_000), max_lifetime_ms: Some(20_000), ..Lifecycle::default() };
    let renewed = Facts { lease_from: at(19), ..facts(State::Running) };
    check(19, &lifecycle, &renewed, None, Some(20));
    check(20, &lifecycle, &renewed, Some((Verb::Delete, "max_lifetime_ms")), Some(24));
}

#[test]
fn deletion_comes_before_stopping() {
    let lifecycle = Lifecycle { lease_ms: Some(10_000), ..IDLE_10_S };
    check(50, &lifecycle, &facts(State::Running), Some((Verb::Delete, "lease_ms")), None);
}

#[test]
fn a_running_command_is_work_though_no_request_comes() {
    let mut activity = Activity::new(at(0), HOLD_MAX, SERVICE_HOLD_MAX);
    let id = activity.hold(at(0), exec(), Duration::from_secs(900)).unwrap();
    let during = Facts { works_until: activity.works_until(), ..facts(State::Running) };
    check(899, &IDLE_10_S, &during, None, Some(910));
    activity.release(at(899), id);
    let after = Facts { works_until: activity.works_until(), ..during };
    check(908, &IDLE_10_S, &after, None, Some(909));
    check(909, &IDLE_10_S, &after, Some((Verb::Stop, "idle_stop_ms")), None);
}

#[test]
fn a_command_that_hangs_holds_until_its_bound_and_is_listed() {
    let mut activity = Activity::new(at(0), HOLD_MAX, SERVICE_HOLD_MAX);
    let id = activity.hold(at(0), exec(), Duration::from_secs(60)).unwrap();
    assert_eq!(activity.holds(at(59))[0].cause, exec());
    assert_eq!(activity.holds(at(60)), []);
    let facts = Facts { works_until: activity.works_until(), ..facts(State::Running) };
    check(70, &IDLE_10_S, &facts, Some((Verb::Stop, "idle_stop_ms")), None);
    // Its end, when it comes after all, is no new work.
    activity.release(at(500), id);
    assert_eq!(activity.works_until(), at(60));
}

#[test]
fn holds_are_counted_and_bounded() {
    let mut activity = Activity::new(at(0), HOLD_MAX, SERVICE_HOLD_MAX);
    let too_long = HOLD_MAX + Duration::from_secs(1);
    assert_eq!(
        activity.hold(at(0), exec(), too_long),
        Err(HoldError::TooLong { asked: too_long, cap: HOLD_MAX })
    );
    for _ in 0..HOLDS_COUNT_MAX {
        activity.hold(at(0), exec(), Duration::from_secs(1)).unwrap();
    }
    assert_eq!(activity.hold(at(0), exec(), Duration::from_secs(1)), Err(HoldError::TooMany));
    assert!(activity.hold(at(1), exec(), Duration::from_secs(1)).is_ok());
}

#[test]
fn the_processor_is_work_from_two_hundredths_on() {
    let milli = Duration::from_millis;
    let mut activity = Activity::new(at(0), HOLD_MAX, SERVICE_HOLD_MAX);
    activity.sample(at(10), milli(5_000));
    assert_eq!(activity.works_until(), at(0), "one look tells nothing");
    activity.sample(at(20), milli(5_199));
    assert_eq!((activity.works_until(), activity.holds(at(20)).len()), (at(0), 0));
    activity.sample(at(30), milli(5_399));
    assert_eq!((activity.works_until(), activity.holds(at(30)).len()), (at(30), 1));
    activity.sample(at(40), milli(5_400));
    assert_eq!((activity.works_until(), activity.holds(at(40)).len()), (at(30), 0));
}

#[test]
fn the_processor_does_not_hold_for_ever_either() {
    let mut activity = Activity::new(at(0), HOLD_MAX, SERVICE_HOLD_MAX);
    for minute in 0..=120 {
        activity.sample(at(60 * minute), Duration::from_secs(30 * minute));
    }
    assert_eq!(activity.works_until(), at(3600));
    assert_eq!(activity.holds(at(7200)), []);
    // A moment of rest, and it counts again.
    activity.sample(at(7260), Duration::from_secs(3600));
    activity.sample(at(7320), Duration::from_secs(3630));
    assert_eq!(activity.works_until(), at(7320));
}

#[test]
fn what_is_above_a_cap_is_refused_and_never_lowered() {
    let caps = Caps {
        lifecycle: Lifecycle { lease_ms: Some(100), ..Lifecycle::default() },
        limits: Limits { pids: Some(50), ..Limits::default() },
    };
    let ask = |lease_ms| {
        let asked = Lifecycle { lease_ms, ..Lifecycle::default() };
        let default = Lifecycle { lease_ms: Some(40), ..Lifecycle::default() };
        caps.lifecycle(asked, default).map(|lifecycle| lifecycle.lease_ms)
    };
    assert_eq!(ask(Some(100)), Ok(Some(100)));
    assert_eq!(ask(None), Ok(Some(40)));
    assert_eq!(
        ask(Some(101)).unwrap_err().to_string(),
        "lifecycle.lease_ms is 101, and the cap lease_ms_max is 100"
    );
    let archived = Lifecycle { archive_after_ms: Some(100), ..Lifecycle::default() };
    let capped = Caps { lifecycle: archived, ..Caps::default() };
    let asked = Lifecycle { archive_after_ms: Some(101), ..Lifecycle::default() };
    let refused = capped.lifecycle(asked, Lifecycle::default()).unwrap_err();
    assert_eq!(
        (refused.field, refused.cap_name),
        ("lifecycle.archive_after_ms", "archive_after_ms_max")
    );
    let asked = Limits { pids: Some(51), memory_bytes: Some(u64::MAX), ..Limits::default() };
    assert_eq!(caps.limits(asked, Limits::default()).unwrap_err().cap_name, "pids_max");
    // Without a word, the cap holds, since "no limit" would be above it.
    let silent = caps.limits(Limits::default(), Limits::default());
    assert_eq!(silent, Ok(Limits { pids: Some(50), ..Limits::default() }));
}

#[test]
fn a_moment_is_too_short_to_tell_the_use_of_the_processor() {
    let milli = Duration::from_millis;
    let mut activity = Activity::new(at(0), HOLD_MAX, SERVICE_HOLD_MAX);
    activity.sample(at(10), milli(0));
    activity.sample(at(10).after(milli(1)), milli(1));
    assert_eq!(activity.works_until(), at(0));
    // It is not forgotten either.
    activity.sample(at(20), milli(500));
    assert_eq!(activity.works_until(), at(20));
}

#[test]
fn an_exec_that_runs_holds_until_its_bound() {
    let mut activity = Activity::new(at(0), HOLD_MAX, SERVICE_HOLD_MAX);
    let id = ExecId::from_random([7; 10]);
    let running = |age| vec![RunningExec { id, age: Duration::from_secs(age) }];
    activity.running(at(100), running(90), &[]);
    assert_eq!(activity.works_until(), at(100));
    let holds = activity.holds(at(100));
    assert_eq!(holds.len(), 1);
    assert_eq!((holds[0].since, holds[0].until), (at(10), at(10).after(HOLD_MAX)));
    // One that hangs keeps it awake no longer than that.
    activity.running(at(9000), running(8990), &[]);
    assert_eq!(activity.works_until(), at(10).after(HOLD_MAX));
    assert_eq!(activity.holds(at(9000)), []);
    activity.running(at(9100), Vec::new(), &[]);
    assert_eq!(activity.works_until(), at(10).after(HOLD_MAX));
}

#[test]
fn a_service_holds_for_a_while_after_its_start_and_after_other_work() {
    let mut activity = Activity::new(at(0), HOLD_MAX, SERVICE_HOLD_MAX);
    let declared = [Service {
        name: "web".to_owned(),
        shell: Some("serve".to_owned()),
        command: None,
        user: Default::default(),
        directory: None,
        env: Default::default(),
        restart: Default::default(),
        ready: None,
        ready_timeout_ms: None,
    }];
    let id = crate::services::id("web", 3);
    let running = |age| vec![RunningExec { id, age: Duration::from_secs(age) }];
    activity.running(at(100), running(90), &declared);
    assert_eq!(activity.works_until(), at(310));
    let cause = HoldCause::Service { name: "web".to_owned() };
    assert_eq!(activity.holds(at(100)), [Hold { cause, since: at(10), until: at(310) }],);
    activity.worked(at(200));
    assert_eq!(activity.works_until(), at(500));
    // However long it runs by itself.
    activity.running(at(9000), running(8990), &declared);
    assert_eq!(activity.works_until(), at(500));
    activity.running(at(9100), Vec::new(), &declared);
    assert_eq!(activity.works_until(), at(200));
}
