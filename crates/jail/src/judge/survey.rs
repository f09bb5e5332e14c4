//! What a real path is to the rules. Looks at the disk only where a name asks for it.

use rustix::fs::{AtFlags, CWD, statat};
use rustix::io::Errno;

use super::decide::{Lineage, Site};
use super::denial::Rule;
use super::git::layout::{Part, part};
use super::ledger::{Ledger, join, within};
use super::names::{DotGit, dot_git};
use super::rules::{Rules, ToolMatch};
use super::walk::is_own_proc;

/// `path` is real: absolute, links resolved but for the last name.
pub(super) fn survey(ledger: &mut Ledger, rules: &Rules, own_pid: u32, path: &[u8]) -> Site {
    if ledger.is_free(path) {
        return Site::Free;
    }
    let Some(root) = ledger.root_of(path).map(<[u8]>::to_vec) else {
        return outside(ledger, own_pid, path);
    };
    let root = root.as_slice();
    let relative = within(path, root).unwrap_or_default();
    let names: Vec<&[u8]> =
        relative.split(|byte| *byte == b'/').filter(|n| !n.is_empty()).collect();
    if rules.denies(&names) {
        return Site::UserDenied;
    }
    let site = allowed(ledger, root, rules, path, &names);
    let below = rules.denied_below(&names);
    match site {
        site if below.is_empty() => site,
        Site::Free | Site::Tool { is_place: false, .. } => {
            Site::Above { rule: Rule::UserDeny, rests: below }
        }
        Site::Above { rests, .. } => {
            Site::Above { rule: Rule::UserDeny, rests: [rests, below].concat() }
        }
        site => site,
    }
}

/// What a name of the workspace is that the user did not deny.
fn allowed(ledger: &mut Ledger, root: &[u8], rules: &Rules, path: &[u8], names: &[&[u8]]) -> Site {
    let is_in_git = names.iter().any(|name| dot_git(name).is_some());
    if !is_in_git {
        let parent = path.iter().rposition(|byte| *byte == b'/').unwrap_or_default();
        ledger.discover(&path[..parent]);
    }
    let mut free = Site::Free;
    if is_in_git {
        match by_name(ledger, root, names) {
            site @ Site::Git { part: Part::Free | Part::Probe, .. } => free = site,
            site => return site,
        }
    }
    match known(ledger, path) {
        Some(site @ Site::Git { part: Part::Free | Part::Probe, .. }) => free = site,
        Some(site) => return site,
        None => {}
    }
    if let Some(site) = linked(ledger, path) {
        return site;
    }
    if !is_in_git
        && let Some(site) =
            bare(ledger, root, path, names).or_else(|| tool(ledger, root, rules, names))
    {
        return site;
    }
    free
}

fn outside(ledger: &Ledger, own_pid: u32, path: &[u8]) -> Site {
    if is_own_proc(path, own_pid) {
        return Site::Supervisor;
    }
    if !ledger.reaches_outside() {
        return Site::Free;
    }
    known(ledger, path).or_else(|| linked(ledger, path)).unwrap_or(Site::Free)
}

fn absolute(root: &[u8], names: &[&[u8]]) -> Vec<u8> {
    join(root, &names.join(&b'/'))
}

fn lineage(is_born: bool) -> Lineage {
    if is_born { Lineage::Born } else { Lineage::Existing }
}

/// The innermost `.git` that gives a part with a rule, else the outermost.
fn by_name(ledger: &Ledger, root: &[u8], names: &[&[u8]]) -> Site {
    let mut found = Site::Free;
    for (at, name) in names.iter().enumerate().rev() {
        match dot_git(name) {
            None => {}
            Some(DotGit::Alias) => return Site::Lookalike,
            Some(DotGit::Exact) if at + 1 == names.len() => {
                let path = absolute(root, names);
                let is_born = ledger.is_born(&path) || ledger.is_born_pointer(&path);
                return Site::DotGit(lineage(is_born));
            }
            Some(DotGit::Exact) => {
                let base = absolute(root, &names[..=at]);
                let site = inside(ledger, &base, &names[at + 1..]);
                if !matches!(site, Site::Git { part: Part::Free | Part::Probe, .. }) {
                    return site;
                }
                found = site;
            }
        }
    }
    found
}

fn inside(ledger: &Ledger, base: &[u8], names: &[&[u8]]) -> Site {
    let (depth, part) = part(names);
    let git_directory = join(base, &names[..depth.min(names.len())].join(&b'/'));
    let is_born = part != Part::Free && ledger.is_born(&git_directory);
    Site::Git { git_directory, part, lineage: lineage(is_born) }
}

/// Git directories that are known by their path.
fn known(ledger: &Ledger, path: &[u8]) -> Option<Site> {
    let base = ledger.git_directory_of(path)?.to_vec();
    let names: Vec<&[u8]> =
        within(path, &base)?.split(|byte| *byte == b'/').filter(|n| !n.is_empty()).collect();
    Some(inside(ledger, &base, &names))
}

fn linked(ledger: &Ledger, path: &[u8]) -> Option<Site> {
    if let Some(why) = ledger.linked(path) {
        return Some(Site::Linked(why.clone()));
    }
    let (rules, rests): (Vec<_>, Vec<_>) =
        ledger.linked_below(path).map(|(rule, rest)| (rule, Some(rest))).unzip();
    // What the user denies, nothing lifts.
    let denied = rules.iter().find(|rule| **rule == Rule::UserDeny);
    let rule = *denied.or_else(|| rules.first())?;
    Some(Site::Above { rule, rests })
}

/// Whether something is there, or may be: a workload can close a directory above
/// against looking while it still holds a descriptor below.
pub(super) fn exists(path: &[u8]) -> bool {
    let found = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW);
    !matches!(found, Err(Errno::NOENT | Errno::NOTDIR))
}

/// A directory is a git directory when git takes it for one, whatever its name.
fn is_bare(directory: &[u8]) -> bool {
    let has = |name: &[u8]| exists(&join(directory, name));
    has(b"HEAD") && (has(b"commondir") || (has(b"objects") && has(b"refs")))
}

fn bare(ledger: &Ledger, root: &[u8], path: &[u8], names: &[&[u8]]) -> Option<Site> {
    for at in 0..names.len() {
        let (_, found) = part(&names[at..]);
        if matches!(found, Part::Free | Part::Probe | Part::Holder) {
            continue;
        }
        let base = absolute(root, &names[..at]);
        if is_bare(&base) {
            return Some(inside(ledger, &base, &names[at..]));
        }
    }
    let (last, parents) = names.split_last()?;
    let base = || absolute(root, parents);
    let has = |name: &[u8]| exists(&join(&base(), name));
    let pointer =
        || Site::Git { git_directory: base(), part: Part::Pointer, lineage: Lineage::Existing };
    let completes = |others: [&[u8]; 2]| {
        (others.iter().all(|name| has(name)) && !exists(path))
            .then(|| Site::CompletesBare { directory: base() })
    };
    match *last {
        b"commondir" => has(b"HEAD").then(pointer),
        b"HEAD" if has(b"commondir") => Some(pointer()),
        b"HEAD" => completes([b"objects", b"refs"]),
        b"objects" => completes([b"refs", b"HEAD"]),
        b"refs" => completes([b"objects", b"HEAD"]),
        _ => None,
    }
}

fn tool(ledger: &Ledger, root: &[u8], rules: &Rules, names: &[&[u8]]) -> Option<Site> {
    let mut weaker = None;
    for found in rules.tools(names) {
        match found {
            ToolMatch::Covered { place, length } => {
                let top = absolute(root, &names[..(place + length).min(names.len())]);
                let is_place = ledger.is_place(&absolute(root, &names[..place]));
                let site = Site::Tool { is_place, top };
                if is_place {
                    return Some(site);
                }
                weaker.get_or_insert(site);
            }
            ToolMatch::Above { place, rests } => {
                if ledger.is_place(&absolute(root, &names[..place])) {
                    weaker = Some(Site::Above { rule: Rule::ProjectTool, rests });
                }
            }
        }
    }
    weaker
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::{Path, PathBuf};

    use super::super::names::Pattern;
    use super::*;

    struct Tree {
        _directory: tempfile::TempDir,
        root: PathBuf,
        ledger: Ledger,
        rules: Rules,
    }

    impl Tree {
        fn new(directories: &[&str], files: &[&str]) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let root = fs::canonicalize(directory.path()).unwrap();
            for name in directories {
                fs::create_dir_all(root.join(name)).unwrap();
            }
            for name in files {
                fs::write(root.join(name), "").unwrap();
            }
            let patterns = |names: &[&str]| {
                names.iter().map(|name| Pattern::new(name).unwrap()).collect::<Vec<_>>()
            };
            let rules = Rules::new(
                patterns(&[".vscode", ".claude/settings.json"]),
                Vec::new(),
                patterns(&["secret"]),
            );
            Self {
                ledger: Ledger::new(std::slice::from_ref(&root)),
                _directory: directory,
                root,
                rules,
            }
        }

        fn site(&mut self, path: &str) -> Site {
            let path: &Path = &self.root.join(path);
            survey(&mut self.ledger, &self.rules, 7, path.as_os_str().as_bytes())
        }

        fn part(&mut self, path: &str) -> Option<(String, Part)> {
            let Site::Git { git_directory, part, .. } = self.site(path) else { return None };
            let base = within(&git_directory, self.root.as_os_str().as_bytes()).unwrap();
            Some((String::from_utf8(base.to_vec()).unwrap(), part))
        }
    }

    #[test]
    fn by_names() {
        let mut tree = Tree::new(&[".git", "a/.git"], &[]);
        assert_eq!(tree.site("src/main.rs"), Site::Free);
        assert_eq!(tree.site(".git"), Site::DotGit(Lineage::Existing));
        assert_eq!(tree.site("b/.GIT/x"), Site::Lookalike);
        assert_eq!(tree.site("secret/x"), Site::UserDenied);
        assert_eq!(tree.part("a/.git/config"), Some(("a/.git".into(), Part::Config)));
        assert_eq!(tree.part(".git/index"), Some((".git".into(), Part::Free)));
        assert_eq!(
            tree.part(".git/modules/m/config"),
            Some((".git/modules/m".into(), Part::Config))
        );
        assert_eq!(
            tree.part(".git/x/.git/hooks/y"),
            Some((".git/x/.git".into(), Part::Hook { is_sample: false }))
        );
    }

    #[test]
    fn outside_only_procfs_of_the_supervisor_matters() {
        let mut tree = Tree::new(&[], &[]);
        let mut site = |path: &str| survey(&mut tree.ledger, &tree.rules, 7, path.as_bytes());
        assert_eq!(site("/elsewhere/.git/config"), Site::Free);
        assert_eq!(site("/proc/7/fd/3"), Site::Supervisor);
        assert_eq!(site("/proc/77/fd/3"), Site::Free);
    }

    #[test]
    fn bare_repositories_by_shape() {
        let mut tree = Tree::new(&["x/objects", "x/refs", "y/refs"], &["x/HEAD", "y/HEAD"]);
        assert_eq!(tree.part("x/config"), Some(("x".into(), Part::Config)));
        let hook = Part::Hook { is_sample: false };
        assert_eq!(tree.part("x/hooks/pre-commit"), Some(("x".into(), hook)));
        assert_eq!(tree.part("y/config"), None);
        assert_eq!(tree.site("src/hooks/use.ts"), Site::Free);
        let directory = tree.root.join("y").as_os_str().as_bytes().to_vec();
        assert_eq!(tree.site("y/objects"), Site::CompletesBare { directory });
        assert_eq!(tree.site("x/objects"), Site::Free);
        assert_eq!(tree.part("y/commondir"), Some(("y".into(), Part::Pointer)));
    }

    #[test]
    fn tools_names_where_tools_look_and_elsewhere() {
        let mut tree = Tree::new(&["a/.git", "vendor/p"], &[]);
        for (path, expected) in [
            (".vscode/tasks.json", Some(true)),
            ("a/.vscode", Some(true)),
            ("vendor/p/.vscode/x", Some(false)),
            ("vendor/p/src", None),
        ] {
            let found = match tree.site(path) {
                Site::Tool { is_place, .. } => Some(is_place),
                _ => None,
            };
            assert_eq!(found, expected, "{path}");
        }
        let rests = vec![Some(b"settings.json".to_vec())];
        assert_eq!(tree.site(".claude"), Site::Above { rule: Rule::ProjectTool, rests });
        assert_eq!(tree.site("vendor/.claude"), Site::Free);
    }

    #[test]
    fn what_leads_to_a_denied_name_is_above_it() {
        let mut tree = Tree::new(&[], &[]);
        let deny = ["cfg/prod.yml", "a/*/key", "**/d/e", "b/**/z", "secret", ".vscode/x/y"];
        let deny = deny.map(|name| Pattern::new(name).unwrap()).to_vec();
        let tools = vec![Pattern::new(".vscode/x/t").unwrap()];
        tree.rules = Rules::new(tools, Vec::new(), deny);
        let literal = |name: &[u8]| Some(name.to_vec());
        for (path, expected) in [
            ("cfg", vec![literal(b"prod.yml")]),
            ("a", vec![None]),
            ("a/b", vec![literal(b"key")]),
            ("x/d", vec![literal(b"e")]),
            ("b/c", vec![None]),
            (".vscode/x", vec![literal(b"t"), literal(b"y")]),
        ] {
            let above = Site::Above { rule: Rule::UserDeny, rests: expected };
            assert_eq!(tree.site(path), above, "{path}");
        }
        for path in ["cfg2", "x/cfg", "cfg/other", "x"] {
            assert_eq!(tree.site(path), Site::Free, "{path}");
        }
        assert_eq!(tree.site("cfg/prod.yml"), Site::UserDenied);
    }
}
