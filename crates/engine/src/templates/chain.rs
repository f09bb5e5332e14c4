//! What each step of a template means, and the name under which its outcome is kept.
//!
//! A key is a hash of what was there before, and of all that decides what a step does to it: so the
//! same key says that the same was done to the same. Variables and users are part of the keys of the
//! commands that see them, and of no others.

use atoll_api::exec::User;
use atoll_api::id::SnapshotId;
use atoll_api::sandbox::Env;
use atoll_api::template::{FilesDigest, TemplateStep};
use atoll_store::digest::Digest;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Where paths begin that are not absolute, before the first `workdir`.
const HOME: &str = "/home/user";

/// Names what came of steps, and what they were done to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key(String);

impl Key {
    /// An image, by what says which one it is.
    pub fn of_image(ground: &str) -> Self {
        Self::hash(&[b"image", ground.as_bytes()])
    }

    /// The files of a snapshot.
    pub fn of_snapshot(id: SnapshotId) -> Self {
        Self::hash(&[b"snapshot", id.to_string().as_bytes()])
    }

    /// What comes of this if something is done to it.
    fn then(&self, what: &What) -> Self {
        let mut parts: Vec<&[u8]> = vec![self.0.as_bytes()];
        let digest;
        match what {
            What::Run { shell, point } => {
                let user = match point.user {
                    User::User => "user",
                    User::Root => "root",
                };
                let workdir = point.workdir.as_deref().unwrap_or_default();
                parts.extend(["run", shell, workdir, user].map(str::as_bytes));
                for (name, value) in &point.env.0 {
                    parts.extend([name.as_bytes(), value.as_bytes()]);
                }
            }
            What::Copy { files, to } => {
                digest = files.to_string();
                parts.extend(["copy", &digest, to].map(str::as_bytes));
            }
            What::Directory(path) => parts.extend(["directory", path].map(str::as_bytes)),
        }
        Self::hash(&parts)
    }

    /// Each part with its length before it, so that no two lists have the same bytes.
    fn hash(parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(Digest::of_hash(hasher.finalize().into()).hex())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// What holds at one place among the steps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Variables.
    pub env: Env,
    /// Where commands begin; where the image says if nothing is said.
    #[serde(default)]
    pub workdir: Option<String>,
    /// As whom they run.
    #[serde(default)]
    pub user: User,
}

/// What is done to files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A command is run.
    Run {
        /// For `/bin/sh -c`.
        shell: String,
        /// What holds for it.
        point: Point,
    },
    /// Files are put into a directory.
    Copy {
        /// Which.
        files: FilesDigest,
        /// Into which.
        to: String,
    },
    /// A directory is made if it is not there.
    Directory(String),
}

/// A step that changes files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// Its number among all steps, from 1.
    pub step: u32,
    /// What is done.
    pub what: What,
    /// What has come of all until then.
    pub key: Key,
}

/// Says what has to be done, after what is called `base`, and what holds at the end.
pub fn plan(base: &Key, mut point: Point, steps: &[TemplateStep]) -> (Vec<Work>, Point) {
    let (mut works, mut key) = (Vec::new(), base.clone());
    for (number, step) in (1..).zip(steps) {
        let what = match step {
            TemplateStep::Env(env) => {
                point.env.0.extend(env.0.clone());
                continue;
            }
            TemplateStep::User(user) => {
                point.user = *user;
                continue;
            }
            TemplateStep::Run(shell) => What::Run { shell: shell.clone(), point: point.clone() },
            TemplateStep::Copy(copy) => {
                let to = absolute(point.workdir.as_deref(), &copy.to);
                What::Copy { files: copy.files, to }
            }
            TemplateStep::Workdir(path) => {
                let path = absolute(point.workdir.as_deref(), path);
                point.workdir = Some(path.clone());
                What::Directory(path)
            }
        };
        key = key.then(&what);
        works.push(Work { step: number, what, key: key.clone() });
    }
    (works, point)
}

/// How many of these need not be done, as `has` says of what came of each.
pub fn cached(works: &[Work], has: impl Fn(&Key) -> bool) -> usize {
    works.iter().rposition(|work| has(&work.key)).map_or(0, |last| last + 1)
}

/// A path as it is from the root, with nothing in it that means nothing.
fn absolute(workdir: Option<&str>, path: &str) -> String {
    let whole = match path.strip_prefix('/') {
        Some(_) => path.to_owned(),
        None => format!("{}/{path}", workdir.unwrap_or(HOME)),
    };
    let parts = whole.split('/').filter(|part| !part.is_empty() && *part != ".");
    let path = parts.fold(String::new(), |path, part| path + "/" + part);
    if path.is_empty() { "/".to_owned() } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_api::template::TemplateCopy;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn env(name: &str, value: &str) -> TemplateStep {
        TemplateStep::Env(Env([(name.to_owned(), value.to_owned())].into()))
    }

    fn run(text: &str) -> TemplateStep {
        TemplateStep::Run(text.to_owned())
    }

    fn workdir(path: &str) -> TemplateStep {
        TemplateStep::Workdir(path.to_owned())
    }

    fn copy(byte: u8, to: &str) -> TemplateStep {
        let files = FilesDigest::from_bytes([byte; 32]);
        TemplateStep::Copy(TemplateCopy { files, to: to.to_owned() })
    }

    fn keys(steps: &[TemplateStep]) -> Vec<Key> {
        let (works, _) = plan(&Key::of_image("host"), Point::default(), steps);
        works.into_iter().map(|work| work.key).collect()
    }

    #[test]
    fn what_holds_is_what_the_steps_before_said() {
        let steps = [
            run("a"),
            env("A", "1"),
            workdir("app"),
            TemplateStep::User(User::Root),
            workdir("./src/"),
            run("b"),
            copy(1, "x"),
            copy(1, "/"),
        ];
        let (works, end) = plan(&Key::of_image("host"), Point::default(), &steps);
        let numbers: Vec<u32> = works.iter().map(|work| work.step).collect();
        assert_eq!(numbers, [1, 3, 5, 6, 7, 8]);
        let What::Run { point, .. } = &works[3].what else { panic!() };
        assert_eq!(point.workdir.as_deref(), Some("/home/user/app/src"));
        assert_eq!((point.user, point.env.0.len()), (User::Root, 1));
        assert_eq!(&end, point);
        let to = |work: &Work| match &work.what {
            What::Copy { to, .. } => to.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!([to(&works[4]), to(&works[5])], ["/home/user/app/src/x", "/"]);
    }

    #[test]
    fn all_that_decides_what_a_step_does_is_in_its_key() {
        let different = [
            vec![run("a")],
            vec![run("b")],
            vec![env("A", "1"), run("a")],
            vec![env("A", "2"), run("a")],
            vec![env("A1", ""), run("a")],
            vec![workdir("/w"), run("a")],
            vec![TemplateStep::User(User::Root), run("a")],
            vec![copy(1, "/a")],
            vec![copy(2, "/a")],
            vec![copy(1, "/b")],
            vec![workdir("/a")],
            vec![run("x"), run("a")],
        ];
        let last = |steps: &Vec<TemplateStep>| keys(steps).pop();
        let all: BTreeSet<_> = different.iter().map(last).collect();
        assert_eq!(all.len(), different.len());
        let other = plan(&Key::of_image("other"), Point::default(), &[run("a")]).0;
        assert!(!all.contains(&Some(other[0].key.clone())));
        // What comes behind a step changes nothing of it, nor does a variable that it does not see.
        assert_eq!(keys(&[run("a"), run("b")])[0], keys(&[run("a"), run("c")])[0]);
        assert_eq!(keys(&[env("A", "1"), copy(1, "/a")]), keys(&[copy(1, "/a")]));
    }

    #[test]
    fn the_deepest_that_is_there_counts() {
        let (works, _) =
            plan(&Key::of_image("host"), Point::default(), &[run("a"), run("b"), run("c")]);
        let has = |places: &'static [usize]| {
            let keys: Vec<_> = places.iter().map(|place| works[*place].key.clone()).collect();
            move |key: &Key| keys.contains(key)
        };
        assert_eq!(cached(&works, has(&[])), 0);
        assert_eq!(cached(&works, has(&[0])), 1);
        assert_eq!(cached(&works, has(&[1])), 2);
        assert_eq!(cached(&works, has(&[0, 2])), 3);
    }

    proptest! {
        #[test]
        fn a_change_of_a_step_changes_all_keys_from_there_on(
            texts in proptest::collection::vec("[ab]{1,3}", 1..6),
            at in 0_usize..6,
        ) {
            let steps: Vec<_> = texts.iter().map(|text| run(text)).collect();
            let at = at % steps.len();
            let mut changed = steps.clone();
            changed[at] = run(&format!("{} ", texts[at]));
            let (before, after) = (keys(&steps), keys(&changed));
            prop_assert_eq!(&before[..at], &after[..at]);
            for place in at..steps.len() {
                prop_assert_ne!(&before[place], &after[place]);
            }
        }

        #[test]
        fn a_path_is_absolute_and_has_no_empty_parts(base in "(/[a-c.]{1,2}){0,2}", path in "[a-c./]{1,8}") {
            let whole = absolute(Some(&base), &path);
            prop_assert!(whole.starts_with('/'));
            prop_assert!(whole == "/" || whole[1..].split('/').all(|part| !part.is_empty() && part != "."));
        }
    }
}
