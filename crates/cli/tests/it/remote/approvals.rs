//! `atoll approvals`.

use super::{Served, ask, each, said};

#[test]
fn without_questions_there_is_nothing_to_decide() {
    each(|project| {
        let _served = Served::start(project, &[]);
        let text = said(project, &["approvals", "list"]);
        assert_eq!(text, "ID  SANDBOX  STATUS  COUNT  WHAT  RULE\n");
        assert_eq!(said(project, &["approvals", "list", "--all", "--json"]), "");
        let unknown = "apr_0123456789abcdef0123";
        for arguments in [
            &["approvals", "show", unknown][..],
            &["approvals", "approve", unknown, "--always", "--for", "1h"],
            &["approvals", "deny", unknown, "--reason", "no"],
        ] {
            let ran = ask(project, arguments);
            assert_eq!(ran.code(), Some(1), "{}", ran.text());
            assert!(ran.text().contains("there is no approval apr_"), "{}", ran.text());
        }
        let ran = ask(project, &["approvals", "approve", unknown, "--once", "--always"]);
        assert_eq!(ran.code(), Some(2), "{}", ran.text());
    });
}
