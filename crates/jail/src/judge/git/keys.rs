//! Which settings a workload may write into a repository's configuration.
//!
//! The list says what is allowed: settings that can neither name a program nor
//! pull in another file, and that git's own commands write. Whatever is not
//! listed may stay as it is but may not come, change or go.

use super::super::names::dot_git;
use super::config::Entry;

/// What the judged file belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Holder<'a> {
    Repository,
    /// A submodule's git directory, whose work tree is named in its configuration.
    /// Holds its own place: the names from the workspace's root down.
    Submodule(&'a [&'a [u8]]),
}

/// The first setting that may not be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Refused {
    /// It has a key that is not on the list, or that is gone.
    Key(String),
    /// Its key is fine, its value is not.
    Value(String),
}

impl Refused {
    pub(in super::super) fn describe(&self) -> String {
        match self {
            Self::Key(key) => format!("{key} may not be set or changed"),
            Self::Value(key) => format!("this value of {key} may run a program"),
        }
    }
}

/// Compares a new file with the one it replaces.
pub(in super::super) fn compare(
    old: &[Entry],
    new: &[Entry],
    holder: Holder<'_>,
) -> Result<(), Refused> {
    for entry in new {
        if is_listed(entry, holder) && !old.contains(entry) && !has_safe_value(entry, holder) {
            return Err(Refused::Value(printable(entry)));
        }
    }
    // The others must be the same, in the same order: the last one wins.
    let mut kept = old.iter().filter(|entry| !is_listed(entry, holder));
    for entry in new.iter().filter(|entry| !is_listed(entry, holder)) {
        if kept.next() != Some(entry) {
            return Err(Refused::Key(printable(entry)));
        }
    }
    kept.next().map_or(Ok(()), |gone| Err(Refused::Key(printable(gone))))
}

fn printable(entry: &Entry) -> String {
    String::from_utf8_lossy(&entry.name()).escape_debug().to_string()
}

fn is_listed(entry: &Entry, holder: Holder<'_>) -> bool {
    let key = entry.key.as_str();
    match (entry.section.as_str(), &entry.subsection) {
        ("core", None) if key == "worktree" => matches!(holder, Holder::Submodule(_)),
        ("branch" | "remote" | "submodule", Some(_)) => {
            let keys = match entry.section.as_str() {
                "branch" => BRANCH,
                "remote" => REMOTE,
                _ => SUBMODULE,
            };
            keys.contains(&key)
        }
        (section, None) => PLAIN.iter().any(|(name, keys)| *name == section && keys.contains(&key)),
        (_, Some(_)) => false,
    }
}

const BRANCH: &[&str] =
    &["remote", "merge", "rebase", "pushremote", "description", "vscode-merge-base"];
const REMOTE: &[&str] = &[
    "url",
    "pushurl",
    "fetch",
    "push",
    "tagopt",
    "prune",
    "prunetags",
    "mirror",
    "promisor",
    "partialclonefilter",
    "skipdefaultupdate",
    "skipfetchall",
    "followremotehead",
];
const SUBMODULE: &[&str] =
    &["url", "active", "update", "branch", "ignore", "fetchrecursesubmodules", "shallow"];
const PLAIN: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "repositoryformatversion",
            "filemode",
            "bare",
            "logallrefupdates",
            "ignorecase",
            "precomposeunicode",
            "symlinks",
            "autocrlf",
            "eol",
            "safecrlf",
            "quotepath",
            "abbrev",
            "sparsecheckout",
            "sparsecheckoutcone",
            "untrackedcache",
            "preloadindex",
            "longpaths",
        ],
    ),
    (
        "extensions",
        &[
            "objectformat",
            "compatobjectformat",
            "refstorage",
            "worktreeconfig",
            "partialclone",
            "noop",
            "preciousobjects",
            "relativeworktrees",
        ],
    ),
    ("user", &["name", "email", "useconfigonly"]),
    ("author", &["name", "email"]),
    ("committer", &["name", "email"]),
    ("push", &["default", "autosetupremote", "followtags"]),
    ("pull", &["rebase", "ff"]),
    ("fetch", &["prune", "prunetags"]),
    ("remote", &["pushdefault"]),
    ("branch", &["autosetupmerge", "autosetuprebase"]),
    ("checkout", &["defaultremote"]),
    ("clone", &["defaultremotename"]),
    ("init", &["defaultbranch"]),
    ("merge", &["conflictstyle", "ff", "renames"]),
    ("diff", &["algorithm", "renames", "context", "colormoved"]),
    ("rebase", &["autostash", "autosquash", "updaterefs"]),
    ("rerere", &["enabled", "autoupdate"]),
    ("stash", &["showpatch", "showstat"]),
    ("status", &["showuntrackedfiles", "short", "branch"]),
    ("submodule", &["active", "recurse", "propagatebranches"]),
    ("index", &["sparse", "version", "threads"]),
    ("feature", &["manyfiles"]),
    ("gc", &["auto", "autodetach", "pruneexpire"]),
    ("maintenance", &["auto", "strategy"]),
    ("color", &["ui"]),
    ("column", &["ui"]),
    ("lfs", &["repositoryformatversion"]),
];

fn has_safe_value(entry: &Entry, holder: Holder<'_>) -> bool {
    let Some(value) = &entry.value else { return true };
    let (section, key) = (entry.section.as_str(), entry.key.as_str());
    if entry.section == "remote" && entry.subsection.as_deref().is_some_and(looks_like_option) {
        return false;
    }
    match (section, &entry.subsection, key) {
        ("remote", Some(_), "url" | "pushurl") | ("submodule", Some(_), "url") => {
            is_safe_url(value)
        }
        ("branch", Some(_), "remote" | "pushremote") => is_safe_url(value),
        ("remote", None, "pushdefault") => is_safe_url(value),
        ("remote", Some(_), "fetch" | "push") => !looks_like_option(value),
        ("submodule", Some(_), "update") => {
            matches!(value.as_slice(), b"checkout" | b"rebase" | b"merge" | b"none")
        }
        ("core", None, "worktree") => match holder {
            Holder::Submodule(place) => stays_inside(place, value),
            Holder::Repository => false,
        },
        _ => true,
    }
}

fn looks_like_option(value: &[u8]) -> bool {
    value.first() == Some(&b'-')
}

/// Whether fetching from `url` runs nothing but git's own transports.
fn is_safe_url(url: &[u8]) -> bool {
    if url.is_empty() || looks_like_option(url) || url.iter().any(u8::is_ascii_control) {
        return false;
    }
    // `NAME::address` runs the program git-remote-NAME, `ext::` any command line.
    let before_slash = url.split(|byte| *byte == b'/').next().unwrap_or_default();
    if before_slash.windows(2).any(|pair| pair == b"::") && !is_bracketed_host(before_slash) {
        return false;
    }
    match find(url, b"://") {
        None => true,
        Some(at) => {
            let scheme = url[..at].to_ascii_lowercase();
            let known: &[&[u8]] = &[b"https", b"http", b"ssh", b"git", b"file", b"git+ssh"];
            known.contains(&scheme.as_slice()) && !looks_like_option(&url[at + 3..])
        }
    }
}

/// `user@[::1]:path`, the one place where two colons are an address.
fn is_bracketed_host(text: &[u8]) -> bool {
    match (find(text, b"["), find(text, b"::")) {
        (Some(bracket), Some(colons)) => bracket < colons,
        _ => false,
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// Whether `climb`, from `place`, ends in the workspace and in no git directory:
/// git on the host writes files there.
fn stays_inside(place: &[&[u8]], climb: &[u8]) -> bool {
    if climb.first() == Some(&b'/') || climb.iter().any(u8::is_ascii_control) {
        return false;
    }
    let mut names = place.to_vec();
    for part in climb.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                if names.pop().is_none() {
                    return false;
                }
            }
            name => names.push(name),
        }
    }
    !names.is_empty() && names.iter().all(|name| dot_git(name).is_none())
}

#[cfg(test)]
mod tests {
    use super::super::config::parse;
    use super::*;

    #[track_caller]
    fn check(old: &str, new: &str, expected: Result<(), Refused>) {
        let (old, new) = (parse(old.as_bytes()).unwrap(), parse(new.as_bytes()).unwrap());
        assert_eq!(compare(&old, &new, Holder::Repository), expected);
    }

    fn key(name: &str) -> Result<(), Refused> {
        Err(Refused::Key(name.to_owned()))
    }

    fn value(name: &str) -> Result<(), Refused> {
        Err(Refused::Value(name.to_owned()))
    }

    #[test]
    fn what_git_commands_write_is_accepted() {
        check("", "[core]\nrepositoryformatversion=0\nbare=false\nlogAllRefUpdates=true\n", Ok(()));
        check("", "[remote \"o\"]\nurl=git@example.com:a/b.git\nfetch=+refs/*:refs/*\n", Ok(()));
        check("", "[branch \"m\"]\nremote=origin\nmerge=refs/heads/m\n", Ok(()));
        check("[user]\nname=a\n", "[user]\nname=b\n", Ok(()));
        check("[user]\nname=a\n", "", Ok(()));
    }

    #[test]
    fn settings_that_run_programs_are_refused_by_name() {
        for text in [
            "[core]\nfsmonitor=/tmp/x\n",
            "[core]\nsshCommand=x\n",
            "[core]\npager=x\n",
            "[core]\neditor=x\n",
            "[core]\nhooksPath=x\n",
            "[core]\nworktree=../x\n",
            "[core]\ngitProxy=x\n",
            "[core]\naskPass=x\n",
            "[core]\nattributesFile=x\n",
            "[core]\nalternateRefsCommand=x\n",
            "[diff]\nexternal=x\n",
            "[diff \"x\"]\ntextconv=x\n",
            "[diff \"x\"]\ncommand=x\n",
            "[filter \"x\"]\nclean=x\n",
            "[filter \"x\"]\nprocess=x\n",
            "[merge \"x\"]\ndriver=x\n",
            "[include]\npath=x\n",
            "[includeIf \"gitdir:x\"]\npath=x\n",
            "[alias]\nx=!y\n",
            "[url \"x\"]\ninsteadOf=y\n",
            "[credential]\nhelper=x\n",
            "[gpg]\nprogram=x\n",
            "[gpg \"ssh\"]\nprogram=x\n",
            "[pager]\nlog=x\n",
            "[sequence]\neditor=x\n",
            "[http]\nproxy=x\n",
            "[protocol \"ext\"]\nallow=always\n",
            "[remote \"o\"]\nuploadpack=x\n",
            "[remote \"o\"]\nreceivepack=x\n",
            "[remote \"o\"]\nvcs=x\n",
            "[remote \"o\"]\nproxy=x\n",
            "[uploadpack]\npackObjectsHook=x\n",
            "[interactive]\ndiffFilter=x\n",
            "[init]\ntemplateDir=x\n",
            "[commit]\ntemplate=x\n",
            "[trailer \"x\"]\ncommand=x\n",
            "[tar \"x\"]\ncommand=x\n",
            "[browser \"x\"]\ncmd=x\n",
            "[mergetool \"x\"]\ncmd=x\n",
            "[lfs]\nurl=x\n",
            "[safe]\ndirectory=x\n",
        ] {
            let entries = parse(text.as_bytes()).unwrap();
            check("", text, key(&printable(&entries[0])));
            check(text, "", key(&printable(&entries[0])));
            check(text, text, Ok(()));
        }
    }

    #[test]
    fn order_and_number_of_the_other_settings_stay() {
        let old = "[alias]\na=1\na=2\n";
        check(old, "[alias]\na=2\na=1\n", key("alias.a"));
        check(old, "[alias]\na=1\na=2\na=1\n", key("alias.a"));
        check(old, "[alias]\na=1\n[user]\nname=x\n[alias]\na=2\n", Ok(()));
    }

    #[test]
    fn addresses() {
        for url in [
            "https://example.com/a",
            "git@example.com:a/b",
            "../sibling",
            "/srv/x.git",
            "ssh://git@example.com:22/x",
            "file:///srv/x",
            "git@[::1]:x",
            "./a::b",
        ] {
            check("", &format!("[remote \"o\"]\nurl=\"{url}\"\n"), Ok(()));
        }
        for url in [
            "ext::sh -c id",
            "fd::17",
            "a::b",
            "-oProxyCommand=x",
            "ssh://-oProxyCommand=x",
            "transport+x://y",
            "foo::https://example.com/",
            "http::x",
            "",
        ] {
            check("", &format!("[remote \"o\"]\nurl=\"{url}\"\n"), value("remote.o.url"));
        }
        check("", "[branch \"m\"]\nremote=ext::x\n", value("branch.m.remote"));
        check("", "[remote \"-x\"]\nurl=https://example.com\n", value("remote.-x.url"));
        check("", "[submodule \"m\"]\nupdate=!x\n", value("submodule.m.update"));
        // What was there may stay.
        let old = "[remote \"o\"]\nurl=ext::x\n";
        check(old, &format!("{old}[user]\nname=x\n"), Ok(()));
    }

    #[test]
    fn a_submodule_names_its_work_tree() {
        let place: [&[u8]; 3] = [b".git", b"modules", b"sub"];
        let check = |climb: &str, expected| {
            let new = parse(format!("[core]\nworktree={climb}\n").as_bytes()).unwrap();
            assert_eq!(compare(&[], &new, Holder::Submodule(&place)), expected, "{climb}");
        };
        check("../../../sub", Ok(()));
        check("../../../a/b", Ok(()));
        for climb in
            ["/etc", "../../../..", "../../../../x", "../../..", "../../hooks", "../../../a/.git"]
        {
            check(climb, value("core.worktree"));
        }
    }
}
