//! Stacks of layers, as real overlays show them.

use super::*;
use atoll_store::Format;
use atoll_store::changes::RejectReason;
use atoll_store::tree::{Bounds, Compared, Difference, Layer};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

const BOUNDS: Bounds = Bounds { told: 10_000, names: 10_000 };

/// Lists a tree: path, kind, mode, owner, times, content, attributes.
const LIST: &str = r#"
import hashlib, os, stat, sys
def show(path):
    s = os.lstat(path); content = ''
    if stat.S_ISREG(s.st_mode): content = hashlib.sha256(open(path, 'rb').read()).hexdigest()[:16] + f' {s.st_size}'
    if stat.S_ISLNK(s.st_mode): content = os.readlink(path)
    attributes = [(name, os.getxattr(path, name, follow_symlinks=False)) for name in sorted(os.listxattr(path, follow_symlinks=False)) if '.overlay.' not in name and not name.startswith('security.')]
    print(os.path.relpath(path), stat.S_IFMT(s.st_mode), f'{s.st_mode & 0o7777:o} {s.st_uid}:{s.st_gid} {attributes}', s.st_mtime_ns, content, sep='\t')
def fail(error): raise error
for place in sys.argv[1:]:
    print('='); os.chdir(place); show('.')
    for top, dirs, files in os.walk('.', onerror=fail):
        for name in dirs + files: show(os.path.join(top, name))
    os.chdir('..')
"#;

/// A path as an overlay shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shown {
    kind: String,
    attributes: String,
    mtime: String,
    content: String,
}

struct Stacks {
    root: tempfile::TempDir,
    layers: usize,
    shown: RefCell<BTreeMap<Vec<String>, Shows>>,
}

impl Stacks {
    fn new(script: &str) -> Self {
        let mut stacks =
            Self { root: tempfile::tempdir().unwrap(), layers: 0, shown: RefCell::default() };
        for name in ["merged", "nothing", "void"] {
            fs::create_dir(stacks.root.path().join(name)).unwrap();
        }
        stacks.add(script);
        stacks
    }

    fn format() -> Format {
        if is_root() { Format::Trusted } else { Format::User }
    }

    fn path(&self, layer: &str) -> PathBuf {
        self.root.path().join(layer)
    }

    fn name(number: usize) -> String {
        format!("layer-{number}")
    }

    /// Adds a layer: what a script does to what is there already.
    fn add(&mut self, script: &str) {
        let below: Vec<_> = (0..self.layers).map(Self::name).collect();
        self.add_all(&[(below, script)]);
    }

    /// Adds layers: what scripts do to what some layers show.
    fn add_all(&mut self, layers: &[(Vec<String>, &str)]) {
        let mut whole = String::new();
        for (below, script) in layers {
            let upper = Self::name(self.layers);
            self.layers += 1;
            let work = format!("work-{}", self.layers);
            for name in [&upper, &work] {
                fs::create_dir(self.path(name)).unwrap();
            }
            let options = format!("{},upperdir={upper},workdir={work}", Self::lower(below));
            let mount = Self::mount(&options, "merged");
            whole += &format!("{mount}\n( cd merged; {script} )\numount merged\n");
        }
        self.run(&whole);
    }

    fn lower(layers: &[String]) -> String {
        let mut all: Vec<_> = layers.iter().rev().map(String::as_str).collect();
        // Without an upper there have to be two.
        all.extend(["nothing", "void"].into_iter().take(2_usize.saturating_sub(all.len())));
        format!("lowerdir={}", all.join(":"))
    }

    fn mount(options: &str, at: &str) -> String {
        let marks = if is_root() { "redirect_dir=on,metacopy=off" } else { "userxattr" };
        format!("mount -t overlay overlay -o {options},{marks} {at}")
    }

    /// Runs a script as somebody who can mount.
    fn run(&self, script: &str) -> String {
        let mut command = Command::new("unshare");
        let script = format!("umask 022; {script}");
        command.args([if is_root() { "-m" } else { "-rm" }, "bash", "-euc", &script]);
        let output = command.current_dir(self.root.path()).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "failed: {errors}\n{script}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn show(&self, layers: &[String]) -> Shows {
        if !self.shown.borrow().contains_key(layers) {
            self.look(&[layers]);
        }
        self.shown.borrow()[layers].clone()
    }

    /// Looks at several stacks at once.
    fn look(&self, stacks: &[&[String]]) {
        let mut whole = String::new();
        let mut places = Vec::new();
        for (number, layers) in stacks.iter().enumerate() {
            let place = format!("shown-{number}");
            fs::create_dir_all(self.path(&place)).unwrap();
            let mount = Self::mount(&format!("ro,{}", Self::lower(layers)), &place);
            whole += &format!("{mount}\n");
            places.push(place);
        }
        let listed = self.run(&format!("{whole}\npython3 - {} <<'END'{LIST}END", places.join(" ")));
        let parse = |line: &str| {
            let mut fields = line.split('\t').map(str::to_owned);
            let mut next = || fields.next().unwrap();
            let path = next();
            let path = if path == "." { PathBuf::new() } else { path.into() };
            (path, Shown { kind: next(), attributes: next(), mtime: next(), content: next() })
        };
        for (layers, listed) in stacks.iter().zip(listed.split("=\n").skip(1)) {
            let shown = listed.lines().map(parse).collect();
            self.shown.borrow_mut().insert(layers.to_vec(), shown);
        }
    }

    /// Makes one layer of several, which gets this name.
    fn flatten(&self, layers: &[String], name: &str) -> tree::Flattened {
        fs::create_dir(self.path(name)).unwrap();
        let destination = File::open(self.path(name)).unwrap();
        tree::flatten(&self.stack(layers), 0, Self::format(), destination.as_fd(), &|| false)
            .unwrap()
    }

    #[track_caller]
    fn check_shows(&self, layers: &[String], expected: &[String]) {
        let (shown, expected) = (self.show(layers), self.show(expected));
        let paths = shown.keys().chain(expected.keys());
        let differ: Vec<_> = paths
            .filter(|path| shown.get(*path) != expected.get(*path))
            .map(|path| {
                format!("{path:?}: {:?}, should be {:?}", shown.get(path), expected.get(path))
            })
            .collect();
        assert!(differ.is_empty(), "{layers:?}: {}", differ.join("\n"));
    }

    fn range(range: Range<usize>) -> Vec<String> {
        range.map(Self::name).collect()
    }

    fn stack(&self, layers: &[String]) -> Vec<Layer> {
        layers.iter().map(|name| Layer { dir: self.path(name), ids_from: 0 }).collect()
    }

    fn compare(&self, before: &[String], after: &[String]) -> Compared {
        let (before, after) = (self.stack(before), self.stack(after));
        tree::compare(&before, &after, Self::format(), BOUNDS, &|| false).unwrap()
    }

    /// Checks the comparison of two stacks against what overlays of them show.
    #[track_caller]
    fn check_compare(&self, before: &[String], after: &[String]) {
        let compared = self.compare(before, after);
        assert_eq!(compared.rejected, []);
        let found: Vec<_> = compared
            .changes
            .iter()
            .map(|change| (change.path.clone(), change.difference))
            .collect();
        assert_eq!(
            found,
            difference(&self.show(before), &self.show(after)),
            "{before:?} {after:?}"
        );
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        Command::new("chmod").args(["-R", "u+rwX"]).arg(self.root.path()).output().ok();
    }
}

type Shows = BTreeMap<PathBuf, Shown>;

fn difference(before: &Shows, after: &Shows) -> Vec<(PathBuf, Difference)> {
    let mut paths: Vec<_> = before.keys().chain(after.keys()).collect();
    paths.sort();
    paths.dedup();
    let one = |path: &&PathBuf| match (before.get(*path), after.get(*path)) {
        (None, Some(_)) => Some(Difference::Added),
        (Some(_), None) => Some(Difference::Removed),
        (Some(one), Some(other)) if one.kind != other.kind => Some(Difference::TypeChanged),
        (Some(one), Some(other)) if one.content != other.content => Some(Difference::Modified),
        (Some(one), Some(other)) if one.attributes != other.attributes => {
            Some(Difference::Attributes)
        }
        _ => None,
    };
    paths.iter().filter_map(|path| Some(((*path).clone(), one(path)?))).collect()
}

/// Anything that a program may do with a few names.
pub(super) fn steps() -> impl Strategy<Value = Vec<String>> {
    let name = || prop::sample::select(vec!["a", "b", "c", "d"]);
    let path = move || prop::collection::vec(name(), 1..4).prop_map(|names| names.join("/"));
    let step = prop_oneof![
        4 => (path(), 0..100_u32).prop_map(|(path, text)| format!("mkdir -p $(dirname {path}); [ -p {path} ] || echo {text} >{path}")),
        4 => path().prop_map(|path| format!("mkdir -p {path}")),
        3 => path().prop_map(|path| format!("rm -rf {path}")),
        6 => (path(), path()).prop_map(|(from, to)| format!("mv -T {from} {to}")),
        2 => (path(), path()).prop_map(|(from, to)| format!("mv {from} {to}/")),
        1 => (path(), 0..8_u32).prop_map(|(path, mode)| format!("chmod 7{mode}5 {path}")),
        1 => (path(), path()).prop_map(|(from, to)| format!("ln {from} {to}")),
        1 => (path(), path()).prop_map(|(from, to)| format!("ln -sT {from} {to}")),
        1 => path().prop_map(|path| format!("mkfifo {path}")),
        1 => path().prop_map(|path| format!("rm -rf {path}; mkdir -p {path}")),
        1 => (path(), 0..9_u32).prop_map(|(path, value)| format!("python3 -c 'import os; os.setxattr(\"{path}\", \"user.x\", b\"{value}\")'")),
        1 => path().prop_map(|path| format!("[ -p {path} ] || echo more >>{path}")),
    ];
    prop::collection::vec(step, 1..12)
}

pub(super) fn script(steps: &[String]) -> String {
    format!("set +e; {{ {}; }} 2>/dev/null; true", steps.join("; "))
}

/// Four layers on a fifth, and another one in place of the upper two.
fn check_any(layers: &[Vec<String>], aside: &[String]) {
    let mut stacks = Stacks::new(
        "mkdir -p a/b/c b/d c/a/d; echo 1 >a/b/d; echo 2 >b/a; echo 3 >c/a/b; echo 4 >a/b/c/d",
    );
    let all = Stacks::range(0..5);
    let mut fork = Stacks::range(0..3);
    let scripts: Vec<_> = layers.iter().map(|steps| script(steps)).collect();
    let aside = script(aside);
    let mut added: Vec<_> = scripts
        .iter()
        .enumerate()
        .map(|(number, script)| (all[..=number].to_vec(), script.as_str()))
        .collect();
    added.push((fork.clone(), &aside));
    stacks.add_all(&added);
    fork.push(Stacks::name(5));
    let named = |below: Range<usize>, name: &str, above: Range<usize>| {
        [Stacks::range(below), vec![name.to_owned()], Stacks::range(above)].concat()
    };
    stacks.flatten(&all[2..5], "upper-three");
    stacks.flatten(&all[3..5], "upper-two");
    stacks.flatten(&all[2..4], "middle");
    stacks.flatten(&all, "whole");
    let flat = [
        named(0..2, "upper-three", 0..0),
        named(0..3, "upper-two", 0..0),
        named(0..2, "middle", 4..5),
        vec!["whole".to_owned()],
    ];
    let mut looked: Vec<&[String]> = vec![&all[..2], &all[..3], &all[..4], &all, &fork];
    looked.extend(flat.iter().map(Vec::as_slice));
    stacks.look(&looked);
    for flat in &flat {
        stacks.check_shows(flat, &all);
        stacks.check_compare(&all, flat);
    }
    stacks.check_compare(&all[..2], &all);
    stacks.check_compare(&all[..4], &all);
    stacks.check_compare(&all, &all[..3]);
    stacks.check_compare(&all, &fork);
    stacks.check_compare(&fork, &all);
    assert_eq!(stacks.compare(&all, &all).changes, []);
}

#[test]
fn any_stack_is_compared_and_made_one_as_overlays_show_it() {
    as_root_and_user(
        "tree::stacks::any_stack_is_compared_and_made_one_as_overlays_show_it",
        || {
            let cases = std::env::var("ATOLL_STACKS").map_or(4, |cases| cases.parse().unwrap());
            let config =
                ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
            proptest!(config, |(layers in prop::collection::vec(steps(), 4), aside in steps())| {
                check_any(&layers, &aside);
            });
        },
    );
}

#[test]
fn moved_directories_go_on_below_under_their_old_names() {
    as_root_and_user("tree::stacks::moved_directories_go_on_below_under_their_old_names", || {
        let words = |steps: &[&str]| steps.iter().map(|&step| step.to_owned()).collect::<Vec<_>>();
        let layers = [
            words(&["mkdir -p a/b/c d/e", "echo 1 >a/b/c/file", "echo 2 >a/b/x", "echo 3 >d/e/y"]),
            // Renamed in place, moved elsewhere, and moved again within what was moved.
            words(&["mv a/b a/B", "mv d/e a/B/c/e", "mv a A", "mkdir a", "echo 4 >a/new"]),
            words(&["mv A/B d/b", "mv d/b/c a/c", "rm d/b/x", "mkdir A/B", "echo 5 >A/B/opaque"]),
            words(&["mv a/c/e top", "mv a/c A/c", "rm -r a", "mv d/b b", "echo 6 >top/y"]),
        ];
        check_any(
            &layers,
            &words(&["mv d/e d/E", "mv a/b d/E/b", "rm -r d/E/b/c", "mkdir d/E/b/c"]),
        );
    });
}

#[test]
fn layers_are_made_one_without_copying() {
    as_root_and_user("tree::stacks::layers_are_made_one_without_copying", || {
        let mut stacks = Stacks::new("mkdir d kept; echo 1 >d/one; echo 2 >two; echo 0 >kept/file");
        stacks.add("echo 3 >d/three; ln d/three again; rm two; rm -r kept; mkdir shut; echo x >shut/x; chmod 000 shut/x shut");
        stacks.add(
            "echo 4 >d/one; mkdir kept; chmod 700 shut; echo y >shut/y; chmod 000 shut; rm d/three",
        );
        let flattened = stacks.flatten(&Stacks::range(1..3), "flat");
        let expected =
            tree::Flattened { linked: 4, directories: 4, whiteouts: 2, ..Default::default() };
        assert_eq!(flattened, expected);
        stacks.check_shows(&[Stacks::name(0), "flat".into()], &Stacks::range(0..3));
        // From another block of ids.
        if is_root() {
            let mut layers = stacks.stack(&Stacks::range(1..3));
            fs::create_dir(stacks.path("moved")).unwrap();
            layers.push(Layer { dir: stacks.path("nothing"), ids_from: 500 });
            std::os::unix::fs::chown(stacks.path("nothing"), Some(500), Some(500)).unwrap();
            let destination = File::open(stacks.path("moved")).unwrap();
            let moved =
                tree::flatten(&layers, 500, Stacks::format(), destination.as_fd(), &|| false)
                    .unwrap();
            assert_eq!((moved.linked, moved.copied, moved.bytes_copied), (0, 4, 8));
            use std::os::unix::fs::MetadataExt as _;
            assert_eq!(stacks.path("moved/again").metadata().unwrap().uid(), 500);
            let compared = tree::compare(
                &stacks.stack(&["flat".into()]),
                &[Layer { dir: stacks.path("moved"), ids_from: 500 }],
                Stacks::format(),
                BOUNDS,
                &|| false,
            );
            assert_eq!(compared.unwrap().changes, []);
        }
        let canceled = || {
            fs::create_dir(stacks.path("canceled")).unwrap();
            let destination = File::open(stacks.path("canceled")).unwrap();
            tree::flatten(
                &stacks.stack(&Stacks::range(1..3)),
                0,
                Stacks::format(),
                destination.as_fd(),
                &|| true,
            )
        };
        assert!(matches!(canceled(), Err(tree::FlattenError::Entry(CopyError::Canceled))));
        // The layers have the modes that they had.
        use std::os::unix::fs::MetadataExt as _;
        assert_eq!(stacks.path("layer-2/shut").metadata().unwrap().mode() & 0o7777, 0);
    });
}

#[test]
fn changes_are_told_in_full() {
    as_root_and_user("tree::stacks::changes_are_told_in_full", || {
        let mut stacks = Stacks::new(
            "mkdir -p d/e; echo one >d/file; ln -s file d/link; echo x >d/e/f; echo same >same",
        );
        stacks.add("echo three >d/file; ln -sfn elsewhere d/link; rm -r d/e; echo new >d/e; echo same >same.new; mv same.new same; mkdir -m 750 n");
        let compared = stacks.compare(&Stacks::range(0..1), &Stacks::range(0..2));
        let lines: Vec<_> = compared
            .changes
            .iter()
            .map(|change| {
                let side = |side: &Option<tree::Side>| {
                    side.as_ref().map_or("-".to_owned(), |side| {
                        let target = side.target.clone().unwrap_or_default();
                        format!(
                            "{} {:o} {} {}",
                            side.kind.word(),
                            side.mode,
                            side.size,
                            target.display()
                        )
                    })
                };
                format!(
                    "{:?} {}: {} -> {}",
                    change.difference,
                    change.path.display(),
                    side(&change.before),
                    side(&change.after)
                )
            })
            .collect();
        assert_eq!(
            lines,
            [
                "TypeChanged d/e: directory 755 0  -> file 644 4 ",
                "Removed d/e/f: file 644 2  -> -",
                "Modified d/file: file 644 4  -> file 644 6 ",
                "Modified d/link: symbolic link 777 0 file -> symbolic link 777 0 elsewhere",
                "Added n: - -> directory 750 0 ",
            ]
        );
        let owner = rustix::process::getuid().as_raw();
        assert_eq!(compared.changes[2].after.as_ref().unwrap().uid, owner);
    });
}

#[test]
fn owners_count_from_the_beginning_of_their_block() {
    let stacks = Stacks::new("echo x >file");
    fs::create_dir(stacks.path("other")).unwrap();
    fs::write(stacks.path("other").join("file"), "x\n").unwrap();
    let owner = rustix::process::getuid().as_raw();
    if is_root() {
        for path in ["other", "other/file"] {
            std::os::unix::fs::chown(stacks.path(path), Some(7000), Some(7000)).unwrap();
        }
    }
    let at = |name: &str, ids_from| [Layer { dir: stacks.path(name), ids_from }];
    let compare = |ids_from| {
        tree::compare(
            &at("layer-0", owner),
            &at("other", ids_from),
            Stacks::format(),
            BOUNDS,
            &|| false,
        )
        .unwrap()
        .changes
    };
    let block = if is_root() { 7000 } else { owner };
    assert_eq!(compare(block), []);
    let told: Vec<_> = compare(1).into_iter().map(|change| change.difference).collect();
    assert_eq!(told, [Difference::Attributes; 2]);
}

#[test]
fn forged_marks_are_not_believed() {
    as_root_and_user("tree::stacks::forged_marks_are_not_believed", || {
        let mut stacks =
            Stacks::new("mkdir a b c; echo x >a/x; echo y >b/y; echo z >c/z; echo f >f");
        stacks.add("touch a/new b/new c/new; echo more >>f");
        let upper = stacks.path("layer-1");
        let prefix = if is_root() { "trusted" } else { "user" };
        let mark = |path: &str, name: &str, value: &[u8]| {
            let name = format!("{prefix}.overlay.{name}");
            rustix::fs::setxattr(upper.join(path), name, value, rustix::fs::XattrFlags::empty())
                .unwrap();
        };
        mark("a", "redirect", b"../../../etc");
        mark("b", "redirect", b"/../b");
        mark("f", "metacopy", b"");
        let compared = stacks.compare(&Stacks::range(0..1), &Stacks::range(0..2));
        let rejected: Vec<_> =
            compared.rejected.iter().map(|it| (it.path.to_str().unwrap(), it.why)).collect();
        assert_eq!(
            rejected,
            [
                ("a", RejectReason::ForgedMark),
                ("b", RejectReason::ForgedMark),
                ("f", RejectReason::NoContent)
            ]
        );
        let paths: Vec<_> = compared.changes.iter().map(|it| it.path.to_str().unwrap()).collect();
        assert_eq!(paths, ["c/new"]);
        // A redirect from an ordinary user's overlay is forged whatever it says.
        mark("c", "redirect", b"a");
        let compared = stacks.compare(&Stacks::range(0..1), &Stacks::range(0..2));
        assert_eq!(compared.rejected.len(), if is_root() { 3 } else { 4 });
    });
}

#[test]
fn a_comparison_has_limits() {
    let mut stacks = Stacks::new("true");
    stacks.add("mkdir b; touch b/1 b/2 a c");
    let (before, after) = (stacks.stack(&Stacks::range(0..1)), stacks.stack(&Stacks::range(0..2)));
    let compare = |told, names, is_canceled: bool| {
        let bounds = Bounds { told, names };
        tree::compare(&before, &after, Stacks::format(), bounds, &|| is_canceled)
    };
    let told = |told, names| {
        let compared = compare(told, names, false).unwrap();
        let paths = compared.changes.iter().map(|change| change.path.to_str().unwrap());
        (paths.collect::<Vec<_>>().join(" "), compared.is_cut)
    };
    let all = "a b b/1 b/2 c";
    assert_eq!(told(5, 5), (all.into(), false));
    // The first ones, whatever the order in which they were found.
    for count in 0..5 {
        let some: Vec<_> = all.split(' ').take(count).collect();
        assert_eq!(told(count, 100), (some.join(" "), true));
    }
    assert!(told(100, 4).1);
    assert_eq!(told(100, 0), (String::new(), true));
    assert!(matches!(compare(4, 100, true), Err(tree::CompareError::Canceled)));
    let gone = [Layer { dir: stacks.path("gone"), ids_from: 0 }];
    let failed = tree::compare(&before, &gone, Stacks::format(), BOUNDS, &|| false);
    assert!(matches!(failed, Err(tree::CompareError::Open { .. })));
}

#[test]
fn a_comparison_is_given_up_within_a_file() {
    let mut stacks = Stacks::new("head -c 4000000 /dev/zero | tr '\\0' x >large");
    stacks.add("cp large again; mv again large");
    let (before, after) = (stacks.stack(&Stacks::range(0..1)), stacks.stack(&Stacks::range(0..2)));
    let asked = std::cell::Cell::new(0);
    let compare = |most| {
        asked.set(0);
        tree::compare(&before, &after, Stacks::format(), BOUNDS, &|| {
            asked.set(asked.get() + 1);
            asked.get() > most
        })
    };
    assert_eq!(compare(1000).unwrap().changes, []);
    assert!(asked.get() > 10, "{}", asked.get());
    assert!(matches!(compare(10), Err(tree::CompareError::Canceled)));
}

#[test]
fn an_empty_stack_shows_nothing() {
    as_root_and_user("tree::stacks::an_empty_stack_shows_nothing", || {
        let stacks = Stacks::new("mkdir d; echo one >d/file");
        let told = |before: &[String], after: &[String]| {
            let changes = stacks.compare(before, after).changes;
            let line = |one: &tree::Changed| format!("{:?} {}", one.difference, one.path.display());
            changes.iter().map(line).collect::<Vec<_>>()
        };
        let all = Stacks::range(0..1);
        assert_eq!(told(&[], &all), ["Added d", "Added d/file"]);
        assert_eq!(told(&all, &[]), ["Removed d", "Removed d/file"]);
        assert!(told(&[], &[]).is_empty());
    });
}
