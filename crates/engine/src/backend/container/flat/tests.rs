//! Chains of layers on a real file system, and what a failure or a death at each moment leaves.

use super::*;
use crate::backend::container::identity::Ids;
use atoll_store::Format;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;
use tempfile::TempDir;

const COUNT: u8 = 12;

fn layer(number: u8) -> LayerId {
    LayerId::from_random([number; ID_BYTES])
}

fn sandbox(number: u8) -> SandboxId {
    SandboxId::from_random([number; ID_BYTES])
}

/// A directory of sandboxes: twelve layers, a sandbox above all and one above eleven of them.
struct Machine {
    dir: TempDir,
    keep: BTreeSet<LayerId>,
}

/// What a moment does.
#[derive(Clone, Copy, PartialEq)]
enum Wrong {
    Nothing,
    Failure,
    Death,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { dir: tempfile::tempdir().unwrap(), keep: [layer(11)].into() };
        let places = machine.places();
        let mut below = Vec::new();
        for number in 0..COUNT {
            fs::create_dir_all(places.layers()).unwrap();
            machine.make(&places.layer(layer(number)), number, &below);
            below.push(layer(number));
        }
        for (number, below) in [(1, &below[..]), (2, &below[..11])] {
            places.make(sandbox(number)).unwrap();
            machine.make(&places.top(sandbox(number)), 100 + number, below);
        }
        machine
    }

    /// Makes what was kept in one round: every file is of another sandbox's ids, where there are any.
    fn make(&self, top: &Top, number: u8, below: &[LayerId]) {
        top.make().unwrap();
        let home = top.home();
        fs::write(home.join("all"), format!("as of {number}\n")).unwrap();
        fs::write(home.join(format!("of-{number}")), vec![number; usize::from(number) * 100])
            .unwrap();
        fs::hard_link(home.join("all"), home.join("again")).unwrap();
        fs::create_dir(home.join("dir")).unwrap();
        fs::write(home.join(format!("dir/of-{number}")), "").unwrap();
        if number % 4 == 3 {
            let name = format!("of-{}", number - 2);
            mknodat(CWD, home.join(name), FileType::CharacterDevice, Mode::empty(), 0).unwrap();
            let name = match format() {
                Format::Trusted => "trusted.overlay.opaque",
                Format::User => "user.overlay.opaque",
            };
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(home.join("dir"), name, b"y", flags).unwrap();
        }
        if rustix::process::geteuid().is_root() {
            let (uid, gid) = Ids::Block(0x7100_0000 + u32::from(number % 3) * 1024).user();
            for path in ["", "all", "dir", &format!("of-{number}"), &format!("dir/of-{number}")] {
                std::os::unix::fs::lchown(home.join(path), Some(uid), Some(gid)).unwrap();
            }
        }
        top.note_below(below).unwrap();
    }

    fn places(&self) -> Places {
        Places::open(&self.dir.path().join("state"), Duration::from_secs(5)).unwrap()
    }

    /// What a server does from its start on, until something goes wrong.
    fn serve(&self, wrong: Wrong, moment: Moment, nth: usize) -> Result<usize, BackendError> {
        let places = self.places();
        let (reading, trash) = (Reading::default(), Trash::open(places.state()).unwrap());
        clear(&places, &trash).unwrap();
        let seen = Mutex::new(0);
        let at = |found| {
            let mut seen = seen.lock().unwrap();
            if found == moment {
                *seen += 1;
            }
            match wrong {
                _ if found != moment || *seen != nth => Ok(()),
                Wrong::Nothing => Ok(()),
                Wrong::Failure => {
                    Err(call("do what a test lets fail")(io::Error::from_raw_os_error(28)))
                }
                Wrong::Death => {
                    drop(seen);
                    panic!("the server dies")
                }
            }
        };
        let flats = Flats {
            places: &places,
            reading: &reading,
            trash: &trash,
            ground: &|_| Ok(Vec::new()),
            at: &at,
            is_canceled: &|| false,
        };
        let mut rounds = 0;
        while flats.shorten(&self.keep, 10)?.is_some() {
            rounds += 1;
            assert!(rounds < 10, "it does not end");
        }
        assert!(reading.lock().is_empty());
        Ok(rounds)
    }

    /// All that has layers below it, with these.
    fn lists(&self) -> Vec<Vec<LayerId>> {
        let places = self.places();
        let of = |top: Top| top.below().unwrap();
        vec![
            of(places.top(sandbox(1))),
            of(places.top(sandbox(2))),
            of(places.layer(layer(11))),
            places.onto(layer(11)).unwrap(),
        ]
    }

    /// Whether everything shows what it did in `other`.
    fn shows(&self, other: &Self) {
        let (lists, others) = (self.lists(), other.lists());
        let (here, there) = (self.places(), other.places());
        for (now, before) in lists.iter().zip(&others) {
            let stacks = [(&here, now), (&there, before)]
                .map(|(places, list)| stack(places, list, Top::home).unwrap());
            assert_eq!(stacks[0].len(), now.len(), "a layer is gone");
            let bounds = Bounds { told: 10, names: 10_000 };
            let found = tree::compare(&stacks[1], &stacks[0], format(), bounds, &|| false).unwrap();
            assert_eq!((found.changes, found.rejected), (Vec::new(), Vec::new()));
        }
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.places().layers()).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

#[test]
fn chains_are_made_short_and_show_what_they_did() {
    let (machine, before) = (Machine::new(), Machine::new());
    machine.shows(&before);
    assert_eq!(machine.serve(Wrong::Nothing, Moment::Filled, 0).unwrap(), 1);
    // Eleven became one, also below what is above them.
    let lists = machine.lists();
    assert_eq!(lists.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1, 1, 2]);
    assert_eq!((&lists[1], &lists[0]), (&lists[2], &lists[3]));
    machine.shows(&before);
    assert_eq!(machine.names().len(), usize::from(COUNT) + 1);
    // Once is enough.
    assert_eq!(machine.serve(Wrong::Nothing, Moment::Filled, 0).unwrap(), 0);
    assert_eq!(machine.lists(), lists);
}

#[test]
fn a_failure_or_a_death_at_any_moment_leaves_everything_as_it_is_seen() {
    let moments = [
        (Moment::Filled, 1),
        (Moment::Verified, 1),
        (Moment::Named, 1),
        (Moment::Linked, 1),
        (Moment::Listed, 1),
        (Moment::Listed, 2),
        (Moment::Listed, 3),
    ];
    let before = Machine::new();
    for (moment, nth) in moments {
        for wrong in [Wrong::Failure, Wrong::Death] {
            let machine = Machine::new();
            let what = AssertUnwindSafe(|| machine.serve(wrong, moment, nth));
            match (wrong, catch_unwind(what)) {
                (Wrong::Failure, Ok(Err(BackendError::DiskFull { .. }))) => {
                    let is_left = machine.names().iter().any(|name| name.starts_with('.'));
                    assert!(!is_left, "{:?}", machine.names());
                }
                (Wrong::Death, Err(_)) => {}
                (_, came) => panic!("{moment:?} {nth}: {came:?}"),
            }
            machine.shows(&before);
            machine.serve(Wrong::Nothing, moment, 0).unwrap();
            machine.shows(&before);
            assert!(machine.lists().iter().all(|list| list.len() <= 2), "{moment:?} {nth}");
            assert!(!machine.names().iter().any(|name| name.starts_with('.')));
        }
    }
}

#[test]
fn what_is_given_up_leaves_nothing() {
    let machine = Machine::new();
    let places = machine.places();
    let (reading, trash) = (Reading::default(), Trash::open(places.state()).unwrap());
    let asked = Mutex::new(0);
    let is_canceled = || {
        let mut asked = asked.lock().unwrap();
        *asked += 1;
        *asked > 20
    };
    let flats = Flats {
        places: &places,
        reading: &reading,
        trash: &trash,
        ground: &|_| Ok(Vec::new()),
        at: &|_| Ok(()),
        is_canceled: &is_canceled,
    };
    let given_up = flats.shorten(&machine.keep, 10);
    assert!(matches!(given_up, Err(BackendError::Cancelled)), "{given_up:?}");
    drop(places);
    assert_eq!(machine.names().len(), usize::from(COUNT));
}

#[test]
fn a_layer_that_shows_something_else_is_not_put_in_their_place() {
    let (machine, before) = (Machine::new(), Machine::new());
    let places = machine.places();
    let (reading, trash) = (Reading::default(), Trash::open(places.state()).unwrap());
    let layers = places.layers();
    // Somebody writes into it when it is made.
    let at = |moment| {
        if moment == Moment::Filled {
            let name = fs::read_dir(&layers).unwrap().map(|entry| entry.unwrap().path());
            let new =
                name.into_iter().find(|path| path.to_str().unwrap().contains(UNMADE)).unwrap();
            fs::write(new.join("home/more"), "").unwrap();
        }
        Ok(())
    };
    let flats = Flats {
        places: &places,
        reading: &reading,
        trash: &trash,
        ground: &|_| Ok(Vec::new()),
        at: &at,
        is_canceled: &|| false,
    };
    let refused = flats.shorten(&machine.keep, 10).unwrap_err();
    assert!(crate::error::chain(&refused).contains("more"), "{refused:?}");
    drop(places);
    assert_eq!(machine.names().len(), usize::from(COUNT));
    machine.shows(&before);
}

#[test]
fn a_list_that_changes_its_place_meanwhile_is_written_where_it_is() {
    let machine = Machine::new();
    let places = machine.places();
    let top = places.top(sandbox(1));
    let all: Vec<LayerId> = (0..COUNT).map(layer).collect();
    assert!(!top.replace_below(&all[1..], layer(50)).unwrap());
    assert!(top.replace_below(&all[..5], layer(50)).unwrap());
    assert_eq!(top.below().unwrap(), [&[layer(50)], &all[5..]].concat());
    assert!(!top.replace_below(&all[..5], layer(50)).unwrap());
    let gone = places.top(sandbox(9));
    assert!(!gone.replace_below(&all[..5], layer(50)).unwrap());
    // What a death left of an earlier one is no hindrance.
    fs::write(top.path().join("below.new"), "rubbish that is longer than what is written").unwrap();
    assert!(top.replace_below(&[layer(50)], layer(51)).unwrap());
    assert_eq!(top.below().unwrap(), [&[layer(51)], &all[5..]].concat());
}
