//! The README's console blocks do what they show.
//!
//! Each line with `$ ` runs in one project, in order; what follows is what it must
//! print. `...` stands for anything within a line, alone for any lines.

use atoll_testkit::run::{Project, User};
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// How the README calls the program before it is installed.
const FROM_SOURCE: &str = "cargo run --release -- ";
/// How it runs all tests.
const ALL_TESTS: &str = "cargo xtask ci";

struct Block {
    commands: Vec<Command>,
}

struct Command {
    line: usize,
    text: String,
    output: Vec<String>,
}

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}

fn blocks(readme: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = readme.lines().enumerate();
    while let Some((_, line)) = lines.next() {
        if line != "```console" {
            continue;
        }
        let mut commands: Vec<Command> = Vec::new();
        for (index, line) in lines.by_ref().take_while(|(_, line)| *line != "```") {
            match line.strip_prefix("$ ") {
                Some(text) => commands.push(Command {
                    line: index + 1,
                    text: text.to_owned(),
                    output: Vec::new(),
                }),
                None => commands.last_mut().expect("a command first").output.push(line.to_owned()),
            }
        }
        blocks.push(Block { commands });
    }
    blocks
}

/// Says whether `actual` is what `shown` shows.
fn agrees(shown: &[String], actual: &[&str]) -> bool {
    match (shown.split_first(), actual.split_first()) {
        (None, _) => actual.is_empty(),
        (Some((any, rest)), _) if any == "..." => {
            (0..=actual.len()).any(|skipped| agrees(rest, &actual[skipped..]))
        }
        (Some(_), None) => false,
        (Some((line, shown)), Some((found, actual))) => {
            agrees_line(line, found) && agrees(shown, actual)
        }
    }
}

fn agrees_line(shown: &str, actual: &str) -> bool {
    match shown.split_once("...") {
        None => shown == actual,
        Some((head, tail)) => actual.strip_prefix(head).is_some_and(|rest| {
            rest.char_indices()
                .map(|(at, _)| at)
                .chain([rest.len()])
                .any(|at| agrees_line(tail, &rest[at..]))
        }),
    }
}

/// What the README's examples take for granted.
fn example(user: User) -> Project {
    let project = Project::new(user, env!("CARGO_BIN_EXE_atoll"));
    project.write("notes.txt", "a note\n");
    project.write(".env", "PASSWORD=1\n");
    project.write(".atollignore", ".env\n");
    let ssh = project.home().join(".ssh");
    std::fs::create_dir(&ssh).unwrap();
    std::fs::write(ssh.join("id_ed25519"), "a key\n").unwrap();
    user.give(&project.home());
    let init = project.bare_sh("git init --quiet");
    assert_eq!(init.code(), Some(0), "{}", init.text());
    symlink(project.atoll(&[]).get_program(), project.outside().join("atoll")).unwrap();
    project
}

#[test]
fn every_example_prints_what_is_shown() {
    let blocks = blocks(&read("README.md"));
    assert!(blocks.len() > 3, "the blocks were not found");
    for user in User::all() {
        let project = example(user);
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", project.outside().display());
        for command in blocks.iter().flat_map(|block| &block.commands) {
            if command.text == ALL_TESTS {
                continue;
            }
            let text = command.text.replace(FROM_SOURCE, "atoll ");
            let mut shell = project.bare("sh");
            shell.args(["-c", &format!("exec 2>&1; {text}")]).env("PATH", &path);
            let output = String::from_utf8(shell.output().unwrap().stdout).unwrap();
            let printed: Vec<&str> = output.lines().collect();
            assert!(
                agrees(&command.output, &printed),
                "{user:?}, README.md:{}: {text}\nshown:\n{}\nprinted:\n{output}",
                command.line,
                command.output.join("\n")
            );
        }
    }
}

#[test]
fn quick_start_is_two_commands_that_exist() {
    let readme = read("README.md");
    let start = readme.find("## Quick start").unwrap();
    let rest = &readme[start + 3..];
    let section = &rest[..rest.find("\n## ").unwrap()];
    let commands: Vec<Command> =
        blocks(section).into_iter().flat_map(|block| block.commands).collect();
    let [run, tests] = commands.as_slice() else { panic!("{} commands", commands.len()) };
    assert!(run.text.starts_with(FROM_SOURCE), "{}", run.text);
    assert!(!run.output.is_empty(), "it shows no output");
    assert_eq!(tests.text, ALL_TESTS);
    assert!(read(".ci/run").lines().any(|line| line == ALL_TESTS), "CI runs something else");
    assert!(read(".cargo/config.toml").contains("\nxtask = "), "no such alias");
    assert!(read("Cargo.toml").contains("\ndefault-members = [\"crates/cli\"]\n"));
    assert!(readme.lines().count() <= 150, "it is read by people in a hurry");
}

#[test]
fn ellipses_stand_for_anything() {
    let shown = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    assert!(agrees(&shown(&["a", "...", "d"]), &["a", "b", "c", "d"]));
    assert!(agrees(&shown(&["..."]), &[]));
    assert!(agrees(&shown(&["x ... z ..."]), &["x y z "]));
    assert!(!agrees(&shown(&["x ... z"]), &["x y"]));
    assert!(!agrees(&shown(&[]), &["a"]));
    assert!(!agrees(&shown(&["a", "..."]), &[]));
}

/// Links between the documents lead somewhere.
#[test]
fn links_lead_to_files() {
    let mut documents: Vec<PathBuf> = vec![repository(), repository().join("docs")];
    documents = documents
        .iter()
        .filter_map(|directory| std::fs::read_dir(directory).ok())
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    assert!(documents.len() > 3, "{documents:?}");
    for document in documents {
        let text = std::fs::read_to_string(&document).unwrap();
        for (at, _) in text.match_indices("](") {
            let target = text[at + 2..].split(')').next().unwrap();
            let file = target.split('#').next().unwrap();
            if file.is_empty() || target.contains("://") {
                continue;
            }
            let found = document.parent().unwrap().join(file);
            assert!(found.exists(), "{}: {target}", document.display());
        }
    }
}
