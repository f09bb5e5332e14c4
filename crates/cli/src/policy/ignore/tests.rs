//! The scan, and its answers beside git's.

use super::*;
use atoll_api::policy::{EffectivePolicy, Files, Sourced};
use proptest::prelude::*;
use proptest::sample::select;
use std::fs;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};

fn files(ignore_files: &[&str], hide: &[&str]) -> Files {
    let sourced =
        |list: &[&str]| list.iter().map(|text| Sourced::built_in((*text).to_owned())).collect();
    Files {
        ignore_files: sourced(ignore_files),
        hide: sourced(hide),
        ..EffectivePolicy::built_in().files
    }
}

fn scan_in(root: &Path, files: &Files) -> Result<(IgnoreSet, Vec<Hidden>), ScanError> {
    let root = fs::File::open(root).unwrap();
    scan(root.as_fd(), files, ScanLimits::default())
}

fn write(root: &Path, path: &str, content: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// What is hidden, and that a look-up by path agrees with the walk.
fn hidden(root: &Path, files: &Files) -> Vec<String> {
    let (set, hidden) = scan_in(root, files).unwrap();
    for item in &hidden {
        assert_eq!(set.is_hidden(&item.path, item.is_dir).as_ref(), Some(&item.rule));
        assert_eq!(set.is_hidden(&item.path.join("below"), false).as_ref(), Some(&item.rule));
    }
    hidden.iter().map(|item| item.path.to_str().unwrap().to_owned()).collect()
}

#[test]
fn only_the_topmost_hidden_directory_is_listed() {
    let root = tempfile::tempdir().unwrap();
    for path in ["secret/a", "secret/b/c", "src/.env", "src/main.rs", ".env"] {
        write(root.path(), path, "");
    }
    write(root.path(), ".aiignore", "secret/\n.env\n");
    assert_eq!(hidden(root.path(), &files(&[".aiignore"], &[])), [".env", "secret", "src/.env"]);
}

#[test]
fn nothing_is_walked_without_a_rule_at_the_root() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "sub/.aiignore", "x\n");
    write(root.path(), "sub/x", "");
    assert_eq!(hidden(root.path(), &files(&[".aiignore"], &[])), [""; 0]);
    write(root.path(), ".aiignore", "other\n");
    assert_eq!(
        hidden(root.path(), &files(&[".aiignore"], &[])),
        ["sub/x"],
        "control: nested files count then"
    );
    fs::remove_file(root.path().join(".aiignore")).unwrap();
    assert_eq!(hidden(root.path(), &files(&[".aiignore"], &["other"])), ["sub/x"]);
}

#[test]
fn one_chain_takes_nothing_back_from_another() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), ".env", "");
    write(root.path(), ".a", ".env\n");
    write(root.path(), ".b", "!.env\n");
    assert_eq!(hidden(root.path(), &files(&[".a", ".b"], &["!.env"])), [".env"]);
    assert_eq!(hidden(root.path(), &files(&[".b"], &["!.env"])), [""; 0], "control");
}

#[test]
fn the_repository_is_hidden_by_the_policy_only() {
    let root = tempfile::tempdir().unwrap();
    for path in [".git/HEAD", "src/x", "sub/.git"] {
        write(root.path(), path, "");
    }
    write(root.path(), ".aiignore", "/*\n!/src/\n!/sub/\n");
    assert_eq!(hidden(root.path(), &files(&[".aiignore"], &[])), [".aiignore"]);
    assert_eq!(hidden(root.path(), &files(&[], &[".git"])), [".git", "sub/.git"]);
}

#[test]
fn the_rule_names_its_place() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), ".aiignore", "# head\n\n*.pem\n");
    write(root.path(), "sub/.aiignore", "key\n");
    let (set, _) = scan_in(root.path(), &files(&[".aiignore"], &["x", "y"])).unwrap();
    let rule = |path: &str| set.is_hidden(Path::new(path), false);
    let file = |path: &str, line| RuleSource::File { path: path.into(), line };
    assert_eq!(
        rule("a/b.pem").unwrap(),
        Rule { source: file(".aiignore", 3), pattern: "*.pem".into() }
    );
    assert_eq!(rule("sub/key").unwrap().source, file("sub/.aiignore", 1));
    assert_eq!(
        rule("z/y").unwrap(),
        Rule { source: RuleSource::Policy(Origin::BUILT_IN), pattern: "y".into() }
    );
    assert_eq!(rule("key"), None);
}

#[test]
fn other_names_of_a_hidden_file_are_noticed() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "key", "");
    let has_other_names =
        || scan_in(root.path(), &files(&[], &["key"])).unwrap().1[0].has_other_names;
    assert!(!has_other_names(), "control");
    fs::hard_link(root.path().join("key"), root.path().join("copy")).unwrap();
    assert!(has_other_names());
}

#[test]
fn links_are_not_followed_by_the_walk() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "real/key", "");
    std::os::unix::fs::symlink("real", root.path().join("link")).unwrap();
    std::os::unix::fs::symlink(".", root.path().join("cycle")).unwrap();
    assert_eq!(hidden(root.path(), &files(&[], &["key", "link/"])), ["real/key"]);
    assert_eq!(
        hidden(root.path(), &files(&[], &["link"])),
        ["link"],
        "control: without a slash a link matches"
    );
}

#[test]
fn an_ignore_file_that_cannot_be_read_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let ignore = root.path().join(".aiignore");
    let error = || scan_in(root.path(), &files(&[".aiignore"], &[])).map(|_| ()).unwrap_err();
    std::os::unix::fs::symlink("/etc/hostname", &ignore).unwrap();
    assert!(matches!(error(), ScanError::NotRegular { .. }), "a link that leaves the project");
    fs::remove_file(&ignore).unwrap();
    std::os::unix::fs::symlink("gone", &ignore).unwrap();
    assert!(matches!(error(), ScanError::NotRegular { .. }), "a link to nothing");
    fs::remove_file(&ignore).unwrap();
    fs::create_dir(&ignore).unwrap();
    assert!(matches!(error(), ScanError::NotRegular { .. }), "a directory");
    fs::remove_dir(&ignore).unwrap();
    fs::write(&ignore, vec![b'a'; (1 << 20) + 1]).unwrap();
    assert!(matches!(error(), ScanError::TooLong { .. }));
    fs::remove_file(&ignore).unwrap();
    write(root.path(), "rules", "key\n");
    write(root.path(), "key", "");
    std::os::unix::fs::symlink("rules", &ignore).unwrap();
    assert_eq!(
        hidden(root.path(), &files(&[".aiignore"], &[])),
        ["key"],
        "control: a link inside is read"
    );
}

#[test]
fn a_scan_is_bounded() {
    let root = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c/d/e"] {
        write(root.path(), name, "");
    }
    let dir = fs::File::open(root.path()).unwrap();
    let with = |limits| scan(dir.as_fd(), &files(&[], &["x"]), limits).map(|_| ());
    assert!(matches!(
        with(ScanLimits { entries: 4, ..ScanLimits::default() }),
        Err(ScanError::TooMany { limit: 4 })
    ));
    assert!(matches!(
        with(ScanLimits { depth: 2, ..ScanLimits::default() }),
        Err(ScanError::TooDeep { .. })
    ));
    with(ScanLimits { entries: 5, depth: 3, ..ScanLimits::default() }).unwrap();
}

/// A tree with awkward names; directories end in a slash.
const TREE: &[&str] = &[
    "a",
    "b",
    "ab",
    "A",
    "#a",
    "!a",
    "a ",
    "a\t",
    "[",
    "\\",
    "-",
    "a]",
    "*",
    "a\n",
    "c/",
    "c/a",
    "c/b",
    "c/ab",
    "c/A",
    "c/#a",
    "c/!a",
    "c/c/",
    "c/c/a",
    "c/c/ab",
    "c/c/c/",
    "c/c/c/a",
    "d/",
    "d/a",
    "d/ab/",
    "d/ab/a",
    "d/ab/b",
    "aa/",
    "aa/a",
    "aa/c/",
    "aa/c/a",
    "abc/",
    "abc/a",
    "abc/c/",
    "abc/c/ab",
    "abc/c/c/",
    "abc/c/c/b",
    "a b/",
    "a b/a",
];

/// A repository with the tree in it.
fn repository() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for path in TREE {
        match path.strip_suffix('/') {
            Some(dir) => fs::create_dir_all(root.path().join(dir)).unwrap(),
            None => write(root.path(), path, ""),
        }
    }
    let status = git(root.path()).args(["init", "--quiet"]).status().expect("the tests need git");
    assert!(status.success());
    root
}

fn git(root: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(root)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CEILING_DIRECTORIES", root.parent().unwrap());
    git
}

/// The paths of the tree that git ignores.
fn ignored_by_git(root: &Path) -> Vec<&'static str> {
    let mut child = git(root)
        .args(["check-ignore", "--no-index", "-z", "--stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input: Vec<u8> = TREE
        .iter()
        .flat_map(|path| [path.trim_end_matches('/').as_bytes(), b"\0"].concat())
        .collect();
    child.stdin.take().unwrap().write_all(&input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "git check-ignore failed");
    let ignored: Vec<&[u8]> = output.stdout.split(|byte| *byte == 0).collect();
    TREE.iter()
        .copied()
        .filter(|path| ignored.contains(&path.trim_end_matches('/').as_bytes()))
        .collect()
}

/// The paths of the tree that our set hides, having read the same files.
fn hidden_by_us(root: &Path) -> Vec<&'static str> {
    let (set, _) = scan_in(root, &files(&[".gitignore"], &[])).unwrap();
    let is_hidden = |path: &str| {
        set.is_hidden(Path::new(path.trim_end_matches('/')), path.ends_with('/')).is_some()
    };
    TREE.iter().copied().filter(|path| is_hidden(path)).collect()
}

fn compare(root: &Path, ignore_files: &[(&str, &[u8])]) {
    for (path, content) in ignore_files {
        fs::write(root.join(path), content).unwrap();
    }
    let shown: Vec<_> = ignore_files
        .iter()
        .map(|(path, content)| (path, content.escape_ascii().to_string()))
        .collect();
    assert_eq!(hidden_by_us(root), ignored_by_git(root), "{shown:?}");
    for (path, _) in ignore_files {
        fs::remove_file(root.join(path)).unwrap();
    }
}

#[test]
fn git_agrees_on_the_corpus() {
    let repository = repository();
    let root = repository.path();
    let mut hidden_once = 0;
    let corpus: &[&[u8]] = &[
        b"/*\n!/c/\n",
        b"*\n!c\n",
        b"c/\n!c/a\n",
        b"c/*\n!c/a\n",
        b"a\n",
        b"/a\n",
        b"c/a\n",
        b"a/\n",
        b"aa/\n",
        b"**/a\n",
        b"c/**\n",
        b"c/**/a\n",
        b"**\n",
        b"**/\n",
        b"c/**/\n",
        b"/**/c/a\n",
        b"*/a\n",
        b"a*\n",
        b"?\n",
        b"a?/a\n",
        b"a**/a\n",
        b"ab**/c/b\n",
        b"a**c/c/**\n",
        b"c/***/a\n",
        b"***\n",
        b"a**b\n",
        b"\\#a\n",
        b"#a\n",
        b"\\!a\n",
        b"!a\n",
        b"!!a\n",
        b"a \n",
        b"a\\ \n",
        b"a\\  \n",
        b"a\t\n",
        b"a\r\n",
        b"a \r\n",
        b"a\\\n",
        b"\\\\\n",
        b"\\a\n",
        b"\\*\n",
        b"\\[\n",
        b"[\n",
        b"[a\n",
        b"[]a]\n",
        b"[!a]\n",
        b"[^a]\n",
        b"[a-b]\n",
        b"[b-a]\n",
        b"[-a]\n",
        b"[a-]\n",
        b"[--a]\n",
        b"[[:alpha:]]\n",
        b"[[:upper:]]\n",
        b"[[:nope:]]\n",
        b"[[:alpha]\n",
        b"[[:]\n",
        b"[a-\\b]\n",
        b"[\\]]\n",
        b"a[]]\n",
        b"[[]\n",
        b"c[/]a\n",
        b"c[!x]a\n",
        b"/\n",
        b"//\n",
        b"//a\n",
        b"c//a\n",
        b"./a\n",
        b"c/.\n",
        b"../a\n",
        b"a//\n",
        b"\xef\xbb\xbfa\n",
        b"\n\xef\xbb\xbfa\n",
        b"a",
        b"",
        b"\n\n",
        b" \n",
        b" a\n",
        b"\xff\n",
        b"a b/\n",
        b"a\\\r\n",
        b"\r\n",
        b"*\\\n",
        b"c/\\a\n",
        b"c\\/a\n",
        b"**\\/a\n",
        b"\\c/a\n",
        b"c/**/**/a\n",
        b"**/**/a\n",
        b"/c/c/\n!/c/c/c/\n",
    ];
    for content in corpus {
        compare(root, &[(".gitignore", content)]);
        compare(root, &[(".gitignore", b"x\n"), ("c/.gitignore", content)]);
        fs::write(root.join(".gitignore"), content).unwrap();
        hidden_once += usize::from(!hidden_by_us(root).is_empty());
    }
    assert!(
        hidden_once > corpus.len() / 2,
        "control: most of the corpus hides something ({hidden_once})"
    );
}

fn pattern() -> impl Strategy<Value = String> {
    const PIECES: &[&str] = &[
        "a",
        "b",
        "c",
        "ab",
        "*",
        "**",
        "?",
        "/",
        "/",
        "/**/",
        "**/",
        "[ab]",
        "[!a]",
        "[^b]",
        "[a-b]",
        "[]",
        "]",
        "[",
        "\\",
        "\\*",
        "\\#",
        "#",
        "!",
        " ",
        "\t",
        "-",
        "[[:alpha:]]",
        "[[:",
        ":]",
        "[\\",
        "\r",
        "A",
        "***",
    ];
    prop::collection::vec(select(PIECES), 1..6).prop_map(|pieces| pieces.concat())
}

fn ignore_file() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(pattern(), 1..5).prop_map(|lines| lines.join("\n").into_bytes())
}

proptest! {
    #[test]
    fn git_agrees_on_anything(at_root in ignore_file(), nested in ignore_file(), deeper in ignore_file()) {
        thread_local!(static REPOSITORY: tempfile::TempDir = repository());
        REPOSITORY.with(|repository| {
            compare(repository.path(), &[(".gitignore", &at_root), ("c/.gitignore", &nested), ("c/c/.gitignore", &deeper)]);
        });
    }
}
