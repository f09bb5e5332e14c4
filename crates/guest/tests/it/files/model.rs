//! Paths through random links lead where a model says that they do in a chroot, and
//! never out.

use super::Sandbox;
use super::client::SECRET;
use atoll_protocol::problem::Code;
use proptest::prelude::*;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A step of a path or of a link's text; one names what lies outside.
fn step() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        4 => Just("a"),
        4 => Just("b"),
        3 => Just(".."),
        1 => Just("."),
        1 => Just("file"),
        1 => Just("outside"),
        1 => Just("secret"),
    ]
}

fn text() -> impl Strategy<Value = String> {
    (any::<bool>(), proptest::collection::vec(step(), 1..6)).prop_map(|(is_absolute, steps)| {
        format!("{}{}", if is_absolute { "/" } else { "" }, steps.join("/"))
    })
}

/// Where the kernel would arrive after chroot(2) to `root`: beneath it, without
/// links. None if it would not.
fn model(root: &Path, path: &str) -> Option<PathBuf> {
    let mut left: Vec<String> = Vec::new();
    let steps = |text: &str| {
        let mut steps: Vec<String> =
            text.split('/').filter(|step| !step.is_empty()).map(str::to_owned).collect();
        steps.reverse();
        steps
    };
    left.extend(steps(path));
    let (mut at, mut links) = (PathBuf::new(), 0);
    while let Some(step) = left.pop() {
        if !root.join(&at).is_dir() {
            return None;
        }
        if step == "." {
            continue;
        }
        if step == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&step);
        match std::fs::read_link(root.join(&next)) {
            Ok(target) => {
                links += 1;
                if links > 40 {
                    return None;
                }
                if target.is_absolute() {
                    at = PathBuf::new();
                }
                left.extend(steps(target.to_str().unwrap()));
            }
            Err(_) if root.join(&next).exists() => at = next,
            Err(_) => return None,
        }
    }
    Some(at)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn paths_lead_where_they_do_in_a_chroot(
        links in proptest::collection::vec((0..3_usize, prop_oneof!["a", "b"], text()), 0..6),
        paths in proptest::collection::vec(text(), 1..12),
    ) {
        let sandbox = Sandbox::new();
        std::fs::create_dir_all(sandbox.path("a/b")).unwrap();
        sandbox.put("file", "inside");
        sandbox.put("a/b/file", "inside");
        // Real directories: through a link the test itself would get out.
        let directories = ["", "a", "a/b"];
        for (directory, name, target) in &links {
            let at = sandbox.path(directories[*directory]).join(name);
            // Where something is there is no link.
            std::os::unix::fs::symlink(target, at).ok();
        }
        for path in &paths {
            let path = format!("/{}", path.trim_start_matches('/'));
            let expected = model(&sandbox.root(), &path);
            let read = sandbox.read(&path);
            if read.problem.as_ref().is_some_and(|problem| problem.code == Code::Invalid) {
                // Above the root, as it is written.
                continue;
            }
            prop_assert!(!read.body.windows(4).any(|part| part == &SECRET.as_bytes()[..4]));
            let looked = sandbox.look(&path, true);
            match &expected {
                None => prop_assert!(looked.problem.is_some(), "{}: {:?}", path, looked),
                Some(at) => {
                    let there = sandbox.root().join(at).symlink_metadata().unwrap();
                    prop_assert!(looked.problem.is_none(), "{}: {:?}", path, looked);
                    prop_assert_eq!(looked.stat().bytes, there.size(), "{} at {:?}", path, at);
                    prop_assert_eq!(looked.stat().mode, there.mode() & 0o7777);
                }
            }
            let is_file = expected.is_some_and(|at| sandbox.root().join(at).is_file());
            prop_assert_eq!(read.problem.is_none(), is_file, "{}: {:?}", path, read);
            sandbox.write(&path, b"inside");
        }
        sandbox.assert_outside_is_as_it_was();
    }
}
