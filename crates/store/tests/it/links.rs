//! Files with several names, and directories that move with some of them.

use super::support::{Case, as_root_and_user, conflict, is_root};
use atoll_store::changes::Conflict;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;

/// Renames as a run does it: where the overlay cannot rename a directory, it is
/// made again of links, a name that was met before is linked to where that is
/// now, and the old names go last.
const MOVE: &str = r#"
import errno, os, shutil, sys

def move(old, new):
    try:
        os.rename(old, new)
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    if os.path.isdir(new):
        os.rmdir(new)
    names = {}
    os.mkdir("stage")
    for top, below, files in os.walk(old):
        inner = os.path.normpath(os.path.join("stage", os.path.relpath(top, old)))
        for name in sorted(below):
            os.mkdir(os.path.join(inner, name))
        for name in sorted(files):
            path, made = os.path.join(top, name), os.path.join(inner, name)
            found = os.lstat(path)
            first = names.setdefault((found.st_dev, found.st_ino), made)
            os.link(path if first == made else first, made, follow_symlinks=False)
    os.rename("stage", new)
    shutil.rmtree(old)

def attempt(act, *paths):
    try:
        act(*paths)
    except (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError):
        pass
    except OSError as error:
        # A directory into itself, or onto one with something in it.
        if error.errno not in (errno.EINVAL, errno.ENOTEMPTY, errno.EPERM):
            raise

def write(path):
    if os.path.isfile(path):
        with open(path, "a") as file:
            file.write("more\n")

def rm(path):
    shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
"#;

/// Runs lines of Python in a session, with what [`MOVE`] defines.
fn work(case: &Case, lines: &str) {
    std::fs::write(case.base.join("work.py"), format!("{MOVE}\n{lines}")).unwrap();
    case.in_session("python3 ../work.py");
}

const DIRS: [&str; 5] = ["a", "b", "a/d", "b/d", "c"];
const PLACES: [&str; 12] =
    ["f", "a/f", "a/g", "a/d/f", "a/d/g", "b/f", "b/g", "b/d/f", "c/f", "c/g", "a/h", "g"];

#[derive(Debug, Clone)]
enum Act {
    Move(usize, usize),
    MoveFile(usize, usize),
    Link(usize, usize),
    Write(usize),
    Remove(usize),
    MakeDir(usize),
}

impl Act {
    fn line(&self) -> String {
        match *self {
            Self::Move(from, to) => format!("attempt(move, {:?}, {:?})\n", DIRS[from], DIRS[to]),
            Self::MoveFile(from, to) => {
                format!("attempt(os.rename, {:?}, {:?})\n", PLACES[from], PLACES[to])
            }
            Self::Link(from, to) => {
                format!("attempt(os.link, {:?}, {:?})\n", PLACES[from], PLACES[to])
            }
            Self::Write(at) => format!("attempt(write, {:?})\n", PLACES[at]),
            Self::Remove(at) => format!("attempt(rm, {:?})\n", PLACES[at]),
            Self::MakeDir(at) => format!("attempt(os.mkdir, {:?})\n", DIRS[at]),
        }
    }
}

/// Something that a session does to directories.
fn directory_act() -> impl Strategy<Value = Act> {
    let dir = 0..DIRS.len();
    prop_oneof![
        4 => (dir.clone(), dir.clone()).prop_map(|(from, to)| Act::Move(from, to)),
        1 => dir.prop_map(Act::MakeDir),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let place = 0..PLACES.len();
    prop_oneof![
        5 => directory_act(),
        1 => (place.clone(), place.clone()).prop_map(|(from, to)| Act::MoveFile(from, to)),
        1 => (place.clone(), place.clone()).prop_map(|(from, to)| Act::Link(from, to)),
        1 => place.clone().prop_map(Act::Write),
        1 => place.prop_map(Act::Remove),
    ]
}

/// Which places are names of which file.
fn names() -> impl Strategy<Value = Vec<Option<usize>>> {
    let file = prop_oneof![2 => Just(None), 3 => (0..3_usize).prop_map(Some)];
    proptest::collection::vec(file, PLACES.len())
}

fn set_up(names: &[Option<usize>]) -> String {
    let mut script = "mkdir -p a/d b/d\n".to_owned();
    let mut first = [None; 3];
    for (place, file) in PLACES.iter().zip(names) {
        let Some(file) = *file else { continue };
        if place.starts_with("c/") {
            script += "mkdir -p c\n";
        }
        script += &match first[file] {
            None => format!("echo {file} > {place}\n"),
            Some(first) => format!("ln {first} {place}\n"),
        };
        first[file].get_or_insert(place);
    }
    script
}

/// A session over a random project.
fn session(names: &[Option<usize>], acts: &[Act]) -> Case {
    let case = Case::new(&set_up(names));
    work(&case, &acts.iter().map(Act::line).collect::<String>());
    case
}

fn for_all<S: Strategy>(all: &S, test: impl Fn(S::Value)) {
    let (cases, max_shrink_iters, failure_persistence) = (20, 100, None);
    let config = Config { cases, max_shrink_iters, failure_persistence, ..Config::default() };
    let outcome = TestRunner::new(config).run(all, |value| {
        test(value);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

fn acts(one: impl Strategy<Value = Act>) -> impl Strategy<Value = Vec<Act>> {
    proptest::collection::vec(one, 1..7)
}

/// A file as far as its names are to be names of one afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum File {
    /// The host's own.
    Host(usize),
    /// A copy in the upper, with a number of its own.
    Copy(usize),
}

/// What a session makes of directories and names, without an overlay.
struct Model {
    dirs: BTreeSet<String>,
    names: BTreeMap<String, File>,
    copies: Vec<usize>,
}

impl Model {
    fn new(names: &[Option<usize>]) -> Self {
        let named = PLACES.iter().zip(names).filter_map(|(place, file)| Some((place, (*file)?)));
        let names: BTreeMap<_, _> =
            named.map(|(place, file)| ((*place).to_owned(), File::Host(file))).collect();
        let mut dirs: BTreeSet<_> = ["a", "a/d", "b", "b/d"].map(str::to_owned).into();
        dirs.extend(names.keys().any(|name| name.starts_with("c/")).then(|| "c".to_owned()));
        Self { dirs, names, copies: Vec::new() }
    }

    fn is_there(&self, dir: &str) -> bool {
        dir.rsplit_once('/').is_none_or(|(above, _)| self.dirs.contains(above))
    }

    fn act(&mut self, act: &Act) {
        let beneath = |path: &str, dir: &str| path.starts_with(&format!("{dir}/"));
        match *act {
            Act::Move(from, to) => {
                let (from, to) = (DIRS[from], DIRS[to]);
                let all = self.dirs.iter().chain(self.names.keys());
                let is_full = all.clone().any(|path| beneath(path, to));
                let can = self.dirs.contains(from) && self.is_there(to) && !is_full;
                if !can || from == to || beneath(to, from) {
                    return;
                }
                let mut copied = BTreeMap::new();
                for (name, mut file) in std::mem::take(&mut self.names) {
                    if !beneath(&name, from) {
                        self.names.insert(name, file);
                        continue;
                    }
                    // Root's overlay moves the directory itself.
                    if let (File::Host(host), false) = (file, is_root()) {
                        file = *copied.entry(host).or_insert_with(|| {
                            self.copies.push(host);
                            File::Copy(self.copies.len() - 1)
                        });
                    }
                    self.names.insert(name.replacen(from, to, 1), file);
                }
                let moved = |dir: String| {
                    let is_moved = dir == from || beneath(&dir, from);
                    if is_moved { dir.replacen(from, to, 1) } else { dir }
                };
                self.dirs = std::mem::take(&mut self.dirs).into_iter().map(moved).collect();
            }
            Act::MakeDir(at) if self.is_there(DIRS[at]) => {
                self.dirs.insert(DIRS[at].to_owned());
            }
            _ => {}
        }
    }

    /// The names of each file once all is applied. What is where it was is no
    /// change, so it stays the host's, and so are its other names.
    fn names_by_file(mut self, before: &[Option<usize>]) -> BTreeSet<BTreeSet<String>> {
        let mut same = BTreeMap::new();
        for (place, host) in PLACES.iter().zip(before) {
            if let (Some(host), Some(File::Copy(copy))) = (*host, self.names.get(*place))
                && self.copies[*copy] == host
            {
                same.insert(File::Copy(*copy), File::Host(host));
            }
        }
        for file in self.names.values_mut() {
            *file = same.get(file).copied().unwrap_or(*file);
        }
        group(self.names)
    }
}

fn group<K: Ord>(names: impl IntoIterator<Item = (String, K)>) -> BTreeSet<BTreeSet<String>> {
    let mut groups: BTreeMap<K, BTreeSet<String>> = BTreeMap::new();
    for (name, file) in names {
        groups.entry(file).or_default().insert(name);
    }
    groups.into_values().collect()
}

/// The names of each file of the project.
fn names_on_host(case: &Case) -> BTreeSet<BTreeSet<String>> {
    let mut found = Vec::new();
    let mut todo = vec![case.project()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let stat = path.symlink_metadata().unwrap();
            if stat.is_dir() {
                todo.push(path);
            } else {
                let name = path.strip_prefix(case.project()).unwrap();
                found.push((name.to_str().unwrap().to_owned(), stat.ino()));
            }
        }
    }
    group(found)
}

#[test]
fn names_stay_names_of_one_file_when_directories_move() {
    as_root_and_user("links::names_stay_names_of_one_file_when_directories_move", || {
        for_all(&(names(), acts(directory_act())), |(names, acts)| {
            let case = session(&names, &acts);
            let mut model = Model::new(&names);
            for act in &acts {
                model.act(act);
            }
            assert_eq!(case.apply().conflicts, []);
            case.check_but_for_links();
            assert_eq!(names_on_host(&case), model.names_by_file(&names));
            assert_eq!(case.listed(), Vec::<String>::new());
        });
    });
}

#[test]
fn a_new_name_of_a_file_and_the_end_of_another_are_no_conflict() {
    as_root_and_user("links::a_new_name_of_a_file_and_the_end_of_another_are_no_conflict", || {
        let case = Case::new("mkdir d; echo g > g; ln g d/old");
        case.in_session("ln g new; rm d/old");
        assert_eq!(case.listed(), ["D d/old", "A new"]);
        assert_eq!(case.apply().conflicts, []);
        case.on_host("test new -ef g; test ! -e d/old");
    });
}

#[test]
fn what_the_host_does_between_two_applies_is_a_conflict_still() {
    as_root_and_user("links::what_the_host_does_between_two_applies_is_a_conflict_still", || {
        let applied_first = |between: &str| {
            let case = Case::new("echo a > a; ln a b; ln a c");
            case.in_session("rm a b; echo new > c");
            assert_eq!(case.try_apply(&["a"], &[]).unwrap().conflicts, []);
            case.on_host(between);
            case.apply().conflicts
        };
        assert_eq!(applied_first(":"), [], "the end of one name moves the time of the others");
        let changed = |path| conflict(path, Conflict::Changed);
        assert_eq!(applied_first("echo more >> c"), ["b", "c"].map(changed));
        assert_eq!(applied_first("chmod 600 c"), ["b", "c"].map(changed));
        assert_eq!(applied_first("rm c; echo other > c"), ["b", "c"].map(changed));
    });
}

#[test]
fn nothing_is_lost_nor_in_conflict_with_itself() {
    as_root_and_user("links::nothing_is_lost_nor_in_conflict_with_itself", || {
        for_all(&(names(), acts(act())), |(names, acts)| {
            let case = session(&names, &acts);
            assert_eq!(case.apply().conflicts, []);
            case.check_but_for_links();
            assert_eq!(case.listed(), Vec::<String>::new());
        });
    });
}

#[test]
fn a_session_can_be_applied_path_by_path() {
    as_root_and_user("links::a_session_can_be_applied_path_by_path", || {
        let order = any::<proptest::sample::Index>();
        for_all(&(names(), acts(act()), order), |(names, acts, order)| {
            let case = session(&names, &acts);
            for _ in 0..100 {
                let changes = case.changes();
                if changes.list.is_empty() {
                    break;
                }
                let path = changes.list[order.index(changes.list.len())].path.clone();
                let outcome = case.try_apply(&[path.to_str().unwrap()], &[]).unwrap();
                assert_eq!(outcome.conflicts, [], "{}", path.display());
            }
            case.check_but_for_links();
            assert_eq!(case.listed(), Vec::<String>::new());
        });
    });
}

/// What was moved away goes first: its new name is no file that the host deleted.
#[test]
fn a_file_whose_old_name_was_applied_before_is_in_no_conflict() {
    as_root_and_user("links::a_file_whose_old_name_was_applied_before_is_in_no_conflict", || {
        for (from, to) in [("a/d/f", "a/d/g"), ("a/d/f", "b/f"), ("f", "c/g")] {
            let case = Case::new(&format!("mkdir -p a/d b c; echo text > {from}"));
            case.in_session(&format!("mv {from} {to}"));
            for path in [from, to] {
                let outcome = case.try_apply(&[path], &[]).unwrap();
                assert_eq!(outcome.conflicts, [], "{path}");
            }
            assert_eq!(case.listed(), Vec::<String>::new());
            assert_eq!(
                std::fs::read_to_string(case.base.join("project").join(to)).unwrap(),
                "text\n"
            );
        }
    });
}

/// The control: the host deleted it, while it worked in the directory.
#[test]
fn a_file_that_the_host_deleted_is_in_conflict_still() {
    as_root_and_user("links::a_file_that_the_host_deleted_is_in_conflict_still", || {
        let case = Case::new("mkdir -p a/d; echo text > a/d/f; echo other > a/d/o");
        case.in_session("echo more >> a/d/f; rm a/d/o");
        assert_eq!(case.try_apply(&["a/d/o"], &[]).unwrap().conflicts, []);
        std::fs::remove_file(case.base.join("project/a/d/f")).unwrap();
        let outcome = case.try_apply(&["a/d/f"], &[]).unwrap();
        assert_eq!(outcome.conflicts, [("a/d/f".into(), Conflict::Gone)]);
    });
}
