//! Editing.

use super::client::octets;
use super::{Sandbox, each};
use atoll_protocol::files::{EDIT_BYTES_MAX, Edit, Expected, Replacement};
use atoll_protocol::problem::Code;
use atoll_protocol::request::{Reply, Request};
use std::os::unix::fs::MetadataExt as _;

fn edit(
    sandbox: &Sandbox,
    path: &str,
    replacements: &[(&str, &str, Expected)],
) -> super::client::Answer {
    let replacements = replacements
        .iter()
        .map(|(old, new, expected)| Replacement {
            old: (*old).to_owned(),
            new: (*new).to_owned(),
            expected: *expected,
        })
        .collect();
    sandbox.ask(Request::Edit(Edit { path: octets(path), replacements }))
}

#[test]
fn text_is_replaced_where_it_is_as_often_as_expected() {
    each("files::edit::text_is_replaced_where_it_is_as_often_as_expected", || {
        let sandbox = Sandbox::new();
        sandbox.put("file", b"one two two\xff three".as_slice());
        sandbox.set_mode("/file", 0o750).stat();
        sandbox.link("link", "file");
        let once = Expected::Exactly(1);
        let answer = edit(
            &sandbox,
            "/link",
            &[("two", "2", Expected::Exactly(2)), ("2 2", "deux", once), ("e", "E", Expected::Any)],
        );
        let Some(Reply::Edited { stat, replaced }) = &answer.reply else { panic!("{answer:?}") };
        assert_eq!((stat.mode, replaced.as_slice()), (0o750, [2, 1, 4].as_slice()));
        let content = std::fs::read(sandbox.path("file")).unwrap();
        assert_eq!(content, b"onE dEux\xff thrEE");
        assert!(sandbox.path("link").is_symlink());
        assert_eq!(sandbox.path("file").metadata().unwrap().mode() & 0o7777, 0o750);
        assert_eq!(sandbox.root().read_dir().unwrap().count(), 2);
    });
}

#[test]
fn nothing_is_replaced_where_one_text_is_not_as_expected() {
    let sandbox = Sandbox::new();
    sandbox.put("file", "one two two");
    let once = Expected::Exactly(1);
    let refused = [
        (vec![("two", "2", once)], Code::Conflict),
        (vec![("three", "3", once)], Code::Conflict),
        (vec![("three", "3", Expected::Any)], Code::Conflict),
        (vec![("one", "1", once), ("one", "1", once)], Code::Conflict),
        (vec![("one", "1", once), ("", "1", once)], Code::Invalid),
    ];
    for (replacements, code) in refused {
        edit(&sandbox, "/file", &replacements).refused(code);
    }
    assert_eq!(sandbox.read("/file").text(), "one two two");
    let message = edit(&sandbox, "/file", &[("two", "2", once)]).problem.unwrap().message;
    assert!(message.contains("is there 2 times, not 1 times"), "{message}");
    edit(&sandbox, "/nothing", &[]).refused(Code::NotFound);
    edit(&sandbox, "/", &[]).refused(Code::Conflict);
    // Not there, and not to be.
    let none = edit(&sandbox, "/file", &[("three", "3", Expected::Exactly(0))]);
    assert!(none.problem.is_none());
}

#[test]
fn a_file_that_is_or_would_be_too_long_is_refused() {
    let sandbox = Sandbox::new();
    let file = std::fs::File::create(sandbox.path("large")).unwrap();
    file.set_len(EDIT_BYTES_MAX + 1).unwrap();
    edit(&sandbox, "/large", &[]).refused(Code::Limit);
    sandbox.put("growing", "x".repeat(1 << 20));
    let long = "y".repeat(1000);
    edit(&sandbox, "/growing", &[("x", &long, Expected::Any)]).refused(Code::Limit);
    assert_eq!(sandbox.look("/growing", false).stat().bytes, 1 << 20);
}
