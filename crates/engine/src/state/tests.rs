use super::*;
use proptest::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Processes {
    None,
    Running,
    Frozen,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum UnderWay {
    Nothing,
    Create,
    Pause,
    Resume,
    Stop,
}

/// The same life told by facts: which processes there are, and what is under way.
#[derive(Debug, Clone, Copy)]
struct Model {
    processes: Processes,
    under_way: UnderWay,
    is_archived: bool,
    is_broken: bool,
    is_gone: bool,
}

impl Model {
    fn new() -> Self {
        Self {
            processes: Processes::None,
            under_way: UnderWay::Create,
            is_archived: false,
            is_broken: false,
            is_gone: false,
        }
    }

    /// Whether `step` can happen, and if so, it did.
    fn apply(&mut self, step: Step) -> bool {
        use UnderWay::{Create, Nothing, Resume, Stop};
        let rests = self.under_way == Nothing;
        let settle = |model: &mut Self, processes| {
            (model.processes, model.under_way, model.is_archived) = (processes, Nothing, false);
        };
        let can = !self.is_gone
            && (step == Step::Delete || !self.is_broken)
            && match step {
                Step::Pause => rests && self.processes == Processes::Running,
                Step::Resume => rests && self.processes != Processes::Running,
                Step::Stop => rests && self.processes != Processes::None,
                Step::Runs => !rests && self.under_way != Stop,
                Step::Frozen => matches!(self.under_way, UnderWay::Pause | Resume),
                Step::Ended => {
                    self.under_way != Create && !(rests && self.processes == Processes::None)
                }
                Step::Archived => {
                    self.under_way == Resume
                        || rests && self.processes == Processes::None && !self.is_archived
                }
                Step::Broke => self.under_way != Create,
                Step::Delete => true,
            };
        if can {
            match step {
                Step::Pause => self.under_way = UnderWay::Pause,
                Step::Resume => self.under_way = Resume,
                Step::Stop => self.under_way = Stop,
                Step::Runs => settle(self, Processes::Running),
                Step::Frozen => settle(self, Processes::Frozen),
                Step::Ended => settle(self, Processes::None),
                Step::Archived => {
                    settle(self, Processes::None);
                    self.is_archived = true;
                }
                Step::Broke => self.is_broken = true,
                Step::Delete => self.is_gone = true,
            }
        }
        can
    }

    fn state(&self) -> State {
        match (self.is_gone, self.is_broken, self.under_way, self.processes) {
            (true, ..) => State::Deleted,
            (_, true, ..) => State::Failed,
            (_, _, UnderWay::Create, _) => State::Creating,
            (_, _, UnderWay::Pause, _) => State::Pausing,
            (_, _, UnderWay::Resume, _) => State::Resuming,
            (_, _, UnderWay::Stop, _) => State::Stopping,
            (_, _, UnderWay::Nothing, Processes::Running) => State::Running,
            (_, _, UnderWay::Nothing, Processes::Frozen) => State::Paused,
            (_, _, UnderWay::Nothing, Processes::None) if self.is_archived => State::Archived,
            (_, _, UnderWay::Nothing, Processes::None) => State::Stopped,
        }
    }
}

proptest! {
    #[test]
    fn lives_go_as_the_facts_say(steps in proptest::collection::vec(0..Step::ALL.len(), 0..60)) {
        let (mut model, mut state) = (Model::new(), State::Creating);
        for step in steps.into_iter().map(|index| Step::ALL[index]) {
            let following = next(state, step);
            prop_assert_eq!(following.is_some(), model.apply(step), "{:?} in {}", step, state);
            state = following.unwrap_or(state);
            prop_assert_eq!(state, model.state());
        }
    }
}

#[test]
fn every_state_can_be_reached_and_left_for_deletion() {
    let mut reached = vec![State::Creating];
    let mut index = 0;
    while let Some(&state) = reached.get(index) {
        reached.extend(Step::ALL.iter().filter_map(|&step| next(state, step)));
        reached = reached.iter().enumerate().fold(Vec::new(), |mut seen, (_, state)| {
            if !seen.contains(state) {
                seen.push(*state);
            }
            seen
        });
        index += 1;
    }
    for state in State::ALL {
        assert!(reached.contains(&state), "{state}");
        assert_eq!(next(state, Step::Delete).is_some(), state != State::Deleted, "{state}");
    }
}

#[test]
fn asking_twice_is_no_mistake() {
    use Verb::{Archive, Delete, Kill, Pause, Resume, Stop};
    let check = |verb, state, expect| assert_eq!(judge(verb, state), expect, "{verb:?} {state}");
    check(Pause, State::Running, Answer::Begin(Step::Pause));
    check(Pause, State::Paused, Answer::Already);
    check(Pause, State::Stopped, Answer::Refuse);
    check(Resume, State::Running, Answer::Already);
    check(Resume, State::Stopped, Answer::Begin(Step::Resume));
    check(Resume, State::Failed, Answer::Refuse);
    check(Stop, State::Paused, Answer::Begin(Step::Stop));
    check(Stop, State::Stopped, Answer::Already);
    check(Kill, State::Running, Answer::Begin(Step::Stop));
    check(Stop, State::Archived, Answer::Refuse);
    check(Archive, State::Stopped, Answer::Begin(Step::Archived));
    check(Archive, State::Archived, Answer::Already);
    check(Archive, State::Running, Answer::Refuse);
    check(Archive, State::Resuming, Answer::Refuse);
    check(Resume, State::Archived, Answer::Begin(Step::Resume));
    check(Delete, State::Failed, Answer::Begin(Step::Delete));
    check(Delete, State::Deleted, Answer::Already);
}
