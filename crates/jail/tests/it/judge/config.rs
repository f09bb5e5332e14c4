//! The reader of configurations against git's own.

use std::process::Command;

use atoll_jail::judge::git::config::{Entry, parse};
use proptest::prelude::*;

/// Names and values.
type Settings = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// What git reads; `None` if it refuses the file.
fn git_reads(text: &[u8]) -> Option<Settings> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config");
    std::fs::write(&file, text).unwrap();
    let output = Command::new("git")
        .args(["config", "-l", "-z", "--no-includes", "-f"])
        .arg(&file)
        .current_dir(directory.path())
        .output()
        .unwrap();
    if !output.status.success() {
        return None;
    }
    let pairs = output.stdout.split(|byte| *byte == 0).filter(|pair| !pair.is_empty());
    Some(
        pairs
            .map(|pair| match pair.iter().position(|byte| *byte == b'\n') {
                Some(at) => (pair[..at].to_vec(), Some(pair[at + 1..].to_vec())),
                None => (pair.to_vec(), None),
            })
            .collect(),
    )
}

fn ours(entries: &[Entry]) -> Settings {
    entries.iter().map(|entry| (entry.name(), entry.value.clone())).collect()
}

/// What is accepted must mean the same to git. Gives whether it was accepted.
fn agrees(text: &[u8]) -> bool {
    let Ok(entries) = parse(text) else { return false };
    let got = git_reads(text);
    assert_eq!(got.as_ref(), Some(&ours(&entries)), "{:?}", String::from_utf8_lossy(text));
    true
}

const CORPUS: &[&str] = &[
    "",
    "\n\n# c\n;d\n",
    "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n",
    "[remote \"origin\"]\n\turl = git@example.com:a/b.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
    "[branch \"a/b.c\"]\n\tremote = origin\n\tmerge = refs/heads/a/b.c\n",
    "[user]\nname = A \"quoted\" B # comment\nemail=a@example.com;c\n",
    "[alias]\n\tx = \"!f() { echo \\\"$1\\\"; }; f\"\n",
    "[a]\nb\nc=\nd= \ne = \"\"\nf = \" x \"  \n",
    "[a] b = 1 [c]\nd = 2\n",
    "[a]b=1\n[a]b=2\n[A]B=3\n",
    "[a]\nb = one\\\n two\\\n\tthree\n",
    "[a]\nb = \\\\ \\\" \\n\\t\\b end\n",
    "[a]\nb = x\\\n",
    "[a]\nb = \"x # y ; z\" # real\n",
    "[a]\r\nb = c\r\nd = e\r\n",
    "[a \"b c\\\\d\\\"e\"]\nf = g\n",
    "[a\t\"b\"]c=d",
    "[a-1]\nb-2 = c\n",
    "[a]\nb = c  d   e\n",
    "[a]\nb = x#y\n",
    "[a]\nb = x #y\n",
    "[a]\nb = \"x\"y\"z\" \n",
    "[a]\nb = \u{e9}\u{1f600}\n",
    "[a \"\"]\nb = c\n",
    "[a]\n\tb = c\n\t\n  # d\n",
];

#[test]
fn the_corpus_reads_as_git_reads_it() {
    let accepted = CORPUS.iter().filter(|text| agrees(text.as_bytes())).count();
    assert!(accepted >= CORPUS.len() - 1, "{accepted}");
}

#[test]
fn every_cut_and_many_changed_bytes_of_the_corpus() {
    let text = CORPUS[2..12].concat().into_bytes();
    let mut accepted = 0;
    for at in 0..text.len() {
        accepted += usize::from(agrees(&text[..at]));
        if at % 5 != 0 {
            continue;
        }
        for byte in [b'"', b'\\', b'#', b'\n', b' ', b']'] {
            let mut changed = text.clone();
            changed[at] = byte;
            accepted += usize::from(agrees(&changed));
        }
    }
    assert!(accepted > text.len() / 2, "{accepted} of {}", text.len());
}

/// Pieces from which a file can be put together.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("[a]".to_owned()),
        Just("[core]\n".to_owned()),
        Just("[b \"c\"]\n".to_owned()),
        Just("key".to_owned()),
        Just(" = ".to_owned()),
        Just("\n".to_owned()),
        Just("\\\n".to_owned()),
        Just("\"".to_owned()),
        Just("\\\"".to_owned()),
        Just("\\n".to_owned()),
        Just(" ".to_owned()),
        Just("\t".to_owned()),
        Just("#".to_owned()),
        Just(";".to_owned()),
        Just("\r\n".to_owned()),
        "[ -~]{0,6}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pieces_read_as_git_reads_them(pieces in proptest::collection::vec(piece(), 0..24)) {
        let text = format!("[a]\nkey = {}", pieces.concat());
        agrees(text.as_bytes());
    }

    #[test]
    fn written_values_come_back(value in "[ -~]{0,40}", name in "[a-z][a-z0-9-]{0,8}") {
        let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
        let text = format!("[section \"x\"]\n\t{name} = \"{quoted}\"\n");
        let entries = parse(text.as_bytes()).unwrap();
        prop_assert_eq!(entries[0].value.as_deref(), Some(value.as_bytes()));
        prop_assert_eq!(&entries[0].key, &name);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _either = parse(&bytes).is_ok();
    }
}
