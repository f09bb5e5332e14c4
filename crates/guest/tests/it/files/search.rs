//! Finding names and lines.

use super::client::{Answer, SECRET, octets};
use super::{Sandbox, each};
use atoll_protocol::files::{ENTRIES_MAX, Glob, Grep, LINE_BYTES_MAX, TEXT_BYTES_MAX};
use atoll_protocol::problem::Code;
use atoll_protocol::request::{Reply, Request};

fn glob(sandbox: &Sandbox, pattern: &str) -> Answer {
    glob_with(sandbox, pattern, false, 100)
}

fn glob_with(sandbox: &Sandbox, pattern: &str, respects_ignore: bool, limit: u32) -> Answer {
    let path = octets("/");
    sandbox.ask(Request::Glob(Glob { path, pattern: pattern.to_owned(), respects_ignore, limit }))
}

/// A search for `pattern` everywhere.
pub(super) fn grep(pattern: &str) -> Grep {
    Grep {
        path: octets("/"),
        pattern: pattern.to_owned(),
        is_literal: false,
        ignores_case: false,
        include: Vec::new(),
        respects_ignore: false,
        limit: 100,
    }
}

/// What was found, as `path:line:column:text`.
fn found(sandbox: &Sandbox, request: Grep) -> Vec<String> {
    let answer = sandbox.ask(Request::Grep(request));
    let Some(Reply::Matches { matches, .. }) = answer.reply else { panic!("{answer:?}") };
    let line = |found: &atoll_protocol::files::Match| {
        format!("{}:{}:{}:{}", found.path, found.line, found.column, found.text)
    };
    matches.iter().map(line).collect()
}

#[test]
fn names_are_found_by_patterns() {
    let sandbox = Sandbox::new();
    for file in ["a.rs", "b/c.rs", "b/c.txt", "b/d/e.rs", ".hidden/f.rs", "b.x/g.rs"] {
        sandbox.put(file, "");
    }
    sandbox.link("to", "b");
    let names = |pattern| glob(&sandbox, pattern).names().join(" ");
    assert_eq!(names("*.rs"), "a.rs");
    assert_eq!(names("**/*.rs"), ".hidden/f.rs a.rs b/c.rs b/d/e.rs b.x/g.rs");
    assert_eq!(names("b/*"), "b/c.rs b/c.txt b/d");
    assert_eq!(names("b/*.{rs,md}"), "b/c.rs");
    assert_eq!(names("[ab]?rs"), "a.rs");
    assert_eq!(names("to/**"), "");
    assert_eq!(names("none"), "");
    glob(&sandbox, "[").refused(Code::Invalid);
    glob(&sandbox, &"x".repeat(5000)).refused(Code::Invalid);
    let cut = glob_with(&sandbox, "**/*.rs", false, 2);
    assert_eq!((cut.names().join(" "), cut.entries().1), (".hidden/f.rs a.rs".to_owned(), true));
    let exact = glob_with(&sandbox, "b/*", false, 3);
    assert!(!exact.entries().1);
    for limit in [0, ENTRIES_MAX + 1] {
        glob_with(&sandbox, "*", false, limit).refused(Code::Invalid);
    }
}

#[test]
fn what_is_ignored_is_left_out_if_so_asked() {
    let sandbox = Sandbox::new();
    for file in
        ["kept", "one.log", "keep.log", "target/x", "a/target/y", "a/b/z.tmp", ".git/config"]
    {
        sandbox.put(file, "needle");
    }
    sandbox.put(".gitignore", "*.log\n!keep.log\ntarget/\n");
    sandbox.put("a/.gitignore", "# only here\n/b/*.tmp\n");
    let names = |ignores| glob_with(&sandbox, "**", ignores, 100).names().join(" ");
    assert_eq!(names(true), ".gitignore a a/.gitignore a/b keep.log kept");
    assert!(names(false).contains(".git/config"));
    let lines = found(&sandbox, Grep { respects_ignore: true, ..grep("needle") });
    assert_eq!(lines, ["keep.log:1:0:needle", "kept:1:0:needle"]);
    assert_eq!(found(&sandbox, grep("needle")).len(), 7);
}

#[test]
fn lines_are_found() {
    each("files::search::lines_are_found", || {
        let sandbox = Sandbox::new();
        sandbox.put("a.txt", "one\nTwo two\r\n\nthree");
        sandbox.put("d/b.md", b"t\xffo\nab.c\nabxc\n".as_slice());
        let lines = |request| found(&sandbox, request);
        assert_eq!(lines(grep("o$")), ["a.txt:2:6:Two two", "d/b.md:1:2:t\u{fffd}o"]);
        assert_eq!(lines(grep("^t")), ["a.txt:4:0:three", "d/b.md:1:0:t\u{fffd}o"]);
        let case = Grep { ignores_case: true, ..grep("^TWO") };
        assert_eq!(lines(case), ["a.txt:2:0:Two two"]);
        let literal = Grep { is_literal: true, ..grep("b.c") };
        assert_eq!(lines(literal), ["d/b.md:2:1:ab.c"]);
        let only = |include: &str| Grep { include: vec![include.to_owned()], ..grep("t") };
        assert_eq!(lines(only("*.md")).len(), 1);
        assert_eq!(lines(only("d/*")).len(), 1);
        assert_eq!(lines(only("/d/*")).len(), 0);
        let one = Grep { path: octets("/d/b.md"), ..grep("abx") };
        assert_eq!(lines(one), [":3:0:abxc"]);
        for pattern in ["(", "(a{1000}){1000}"] {
            sandbox.ask(Request::Grep(grep(pattern))).refused(Code::Invalid);
        }
        sandbox
            .ask(Request::Grep(Grep { path: octets("/no"), ..grep("x") }))
            .refused(Code::NotFound);
    });
}

#[test]
fn an_answer_is_bounded_and_says_what_was_not_searched() {
    each("files::search::an_answer_is_bounded_and_says_what_was_not_searched", || {
        let sandbox = Sandbox::new();
        sandbox.put("binary", b"needle\nneedle\0\nneedle".as_slice());
        sandbox.put("closed", "needle");
        sandbox.set_mode("/closed", 0).stat();
        sandbox.put("many", "needle\n".repeat(50));
        let answer = sandbox.ask(Request::Grep(Grep { limit: 10, ..grep("needle") }));
        let Some(Reply::Matches { matches, is_cut, searched, skipped }) = answer.reply else {
            panic!("{answer:?}")
        };
        assert_eq!((matches.len(), is_cut), (10, true));
        let expected = if rustix::process::geteuid().is_root() { (3, 1) } else { (2, 2) };
        assert_eq!((searched, skipped), expected);

        let long = usize::try_from(LINE_BYTES_MAX).unwrap() + 1000;
        sandbox.put("many", format!("{}end\nnext end\n", "x".repeat(long)));
        assert_eq!(found(&sandbox, grep("end")), ["many:2:5:next end"]);
        let longest = found(&sandbox, grep("^xx")).remove(0);
        assert_eq!(longest.len(), "many:1:0:".len() + TEXT_BYTES_MAX);
    });
}

#[test]
fn many_long_lines_fit_into_an_answer() {
    let sandbox = Sandbox::new();
    // Six bytes each in JSON.
    let line = "\u{1}".repeat(1000) + "\n";
    sandbox.put("file", line.repeat(2000));
    let answer = sandbox.ask(Request::Grep(Grep { limit: ENTRIES_MAX, ..grep(".") }));
    let Some(Reply::Matches { matches, is_cut, .. }) = answer.reply else { panic!("{answer:?}") };
    assert!(is_cut);
    assert!(matches.len() > 500, "{}", matches.len());
}

#[test]
fn nothing_outside_is_found_through_a_link() {
    let sandbox = Sandbox::new();
    sandbox.link("directory", sandbox.outside());
    sandbox.link("file", sandbox.outside().join("secret"));
    rustix::fs::mknodat(
        rustix::fs::CWD,
        sandbox.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    assert_eq!(found(&sandbox, grep(SECRET)), Vec::<String>::new());
    assert_eq!(glob(&sandbox, "**").names().join(" "), "directory file pipe");
    for path in ["/directory", "/file"] {
        let request = Grep { path: octets(path), ..grep(SECRET) };
        sandbox.ask(Request::Grep(request)).refused(Code::NotFound);
    }
    let request = Grep { path: octets("/pipe"), ..grep("x") };
    sandbox.ask(Request::Grep(request)).refused(Code::Conflict);
}
