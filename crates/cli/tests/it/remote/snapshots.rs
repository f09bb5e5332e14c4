//! Snapshots by the command line: taken, listed, drawn, forked, gone back to, deleted.

use super::{Served, ask, each, objects, said};
use atoll_testkit::run::Project;

/// What a line of shell prints in a sandbox.
fn sh(project: &Project, sandbox: &str, script: &str) -> String {
    said(project, &["exec", sandbox, "--", "sh", "-c", script])
}

/// The words of each line.
fn words(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn a_story_is_told_from_its_first_snapshot_to_its_last() {
    each(|project| {
        let _served = Served::start(project, &[]);
        said(project, &["create", "web", "--env", "A=kept", "--exec-ask", "git push *"]);
        sh(project, "web", "echo one > state");
        said(project, &["stop", "web"]);
        let taken =
            ask(project, &["snapshot", "create", "web", "--label", "n=1", "--delete-after", "7d"]);
        assert_eq!(taken.code(), Some(0), "{}", taken.text());
        let first = taken.stdout().trim().to_owned();
        assert!(first.starts_with("snp_") && taken.stdout().lines().count() == 1, "{first}");
        assert!(taken.stderr().starts_with("atoll: set aside in "), "{}", taken.text());
        let shown = objects(project, &["snapshot", "show", &first, "--json"]);
        assert_eq!((&shown[0]["way"], &shown[0]["labels"]["n"]), (&"rename".into(), &"1".into()));
        assert!(shown[0]["expires_at"].is_string(), "{shown:?}");
        assert!(said(project, &["snapshot", "show", &first]).contains("\"way\": \"rename\""));

        said(project, &["start", "web"]);
        sh(project, "web", "echo two > state");
        said(project, &["stop", "web"]);
        let second = objects(project, &["snapshot", "create", "web", "--json"]);
        assert_eq!(second[0]["parent_id"], first.as_str());
        let second = second[0]["id"].as_str().unwrap().to_owned();

        differs(project, &first, &second);

        let forks =
            said(project, &["fork", &first, "--count", "2", "--name", "try", "--env", "B=own"]);
        assert_eq!(forks.lines().count(), 2, "{forks}");
        for name in ["try-1", "try-2"] {
            assert_eq!(sh(project, name, "cat state; echo $A $B"), "one\nkept own\n");
        }
        let asks = &objects(project, &["show", "try-1", "--json"])[0]["exec_ask"];
        assert_eq!(asks[0], "git push *", "{asks}");
        said(project, &["create", "late", "--snapshot", &second]);
        assert_eq!(sh(project, "late", "cat state"), "two\n");
        // Of a sandbox one is taken first, and it is told how.
        let of_it = ask(project, &["fork", "web", "--name", "third", "--snapshot-label", "n=3"]);
        assert_eq!(of_it.code(), Some(0), "{}", of_it.text());
        assert!(of_it.stderr().starts_with("atoll: set aside in "), "{}", of_it.text());
        assert_eq!(sh(project, "third", "cat state"), "two\n");

        let listed = said(project, &["snapshot", "list", "--sandbox", "web"]);
        let rows = words(&listed);
        assert_eq!(rows[0], ["ID", "SANDBOX", "TAKEN", "WAY", "TIME", "COPIED", "LABELS"]);
        assert_eq!((rows.len(), rows[1][0], rows[1][3]), (4, first.as_str(), "rename"));
        let labelled = objects(project, &["snapshot", "list", "--label", "n=3", "--json"]);
        assert_eq!(labelled.len(), 1);
        let third = labelled[0]["id"].as_str().unwrap();
        assert_eq!(said(project, &["snapshot", "list", "-q"]).lines().count(), 3);

        assert_eq!(said(project, &["restore", "web", &first]), "");
        let back = objects(project, &["restore", "web", &first, "--json"]);
        assert_eq!(
            (&back[0]["state"], &back[0]["snapshot_id"]),
            (&"stopped".into(), &first.as_str().into())
        );
        assert_eq!(sh(project, "web", "cat state"), "one\n");

        let tree = said(project, &["snapshot", "tree"]);
        let drawn: Vec<String> = words(&tree).iter().map(|line| line[..2].join(" ")).collect();
        let ids: Vec<String> = ["web", "try-1", "try-2", "late", "third"]
            .iter()
            .map(|name| {
                objects(project, &["show", name, "--json"])[0]["id"].as_str().unwrap().to_owned()
            })
            .collect();
        assert_eq!(
            drawn,
            [
                format!("o {first}"),
                format!("├─@ {}", ids[0]),
                format!("├─@ {}", ids[1]),
                format!("├─@ {}", ids[2]),
                format!("o {second}"),
                format!("├─@ {}", ids[3]),
                format!("o {third}"),
                format!("@ {}", ids[4]),
            ],
            "{tree}"
        );
        let lines = objects(project, &["snapshot", "tree", "late", "--json"]);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(lines[0]["sandboxes"].as_array().unwrap().len(), 3, "{lines:?}");

        let gone = ask(project, &["snapshot", "delete", &first, "snp_00000000000000000000", third]);
        assert_eq!(gone.code(), Some(1), "{}", gone.text());
        assert!(gone.stderr().contains("(not_found)"), "{}", gone.text());
        assert_eq!(said(project, &["snapshot", "list", "-q"]), format!("{second}\n"));
        assert_eq!(sh(project, "try-2", "cat state"), "one\n");
    });
}

/// Of two snapshots, in the second of which a file has other words.
fn differs(project: &Project, first: &str, second: &str) {
    assert_eq!(said(project, &["snapshot", "diff", first]), "A /home/user/state\n");
    let changed = "M /home/user/state\n";
    assert_eq!(said(project, &["snapshot", "diff", second]), changed);
    assert_eq!(said(project, &["snapshot", "diff", first, second]), changed);
    assert_eq!(said(project, &["snapshot", "diff", second, second]), "");
    let found = objects(project, &["snapshot", "diff", first, second, "--json"]);
    assert_eq!((&found[0]["snapshot_id"], &found[0]["with_id"]), (&second.into(), &first.into()));
    let entry = &found[0]["entries"][0];
    assert_eq!((&entry["difference"], &entry["before"]["bytes"]), (&"modified".into(), &4.into()));
    let gone = ask(project, &["snapshot", "diff", first, "snp_00000000000000000000"]);
    assert_eq!(gone.code(), Some(1), "{}", gone.text());
    assert!(gone.stderr().contains("(not_found)"), "{}", gone.text());
    for wrong in [&["web"][..], &[first, "--limit", "0"]] {
        let ran = ask(project, &[&["snapshot", "diff"], wrong].concat());
        assert_eq!(ran.code(), Some(2), "{}", ran.text());
    }
}

#[test]
fn what_cannot_be_forked_or_gone_back_to_is_told() {
    each(|project| {
        let _served = Served::start(project, &["--sandboxes-max", "2"]);
        said(project, &["create", "web"]);
        said(project, &["stop", "web"]);
        let snapshot = said(project, &["snapshot", "create", "web"]);
        let snapshot = snapshot.trim();
        // There is room for one.
        let some = ask(project, &["fork", snapshot, "--count", "3"]);
        assert_eq!(some.code(), Some(1), "{}", some.text());
        assert_eq!(some.stdout().lines().count(), 1, "{}", some.text());
        assert_eq!(some.stderr().matches("(capacity)").count(), 2, "{}", some.text());
        let none = ask(project, &["fork", "web", "--json"]);
        assert_eq!(none.code(), Some(1), "{}", none.text());
        assert_eq!(none.json()["error"]["code"], "capacity");
        assert_eq!(said(project, &["snapshot", "list", "-q"]).lines().count(), 1);
        let gone = "snp_00000000000000000000";
        for (arguments, code) in [
            (&["restore", "web", gone][..], "(not_found)"),
            (&["fork", gone], "(not_found)"),
            (&["fork", "nobody"], "(not_found)"),
            (&["create", "--snapshot", gone], "(invalid)"),
            (&["fork", "web", "--count", "0"], "(invalid)"),
            (&["snapshot", "create", "nobody"], "(not_found)"),
        ] {
            let ran = ask(project, arguments);
            assert_eq!(ran.code(), Some(1), "{arguments:?}: {}", ran.text());
            assert!(ran.stderr().contains(code), "{arguments:?}: {}", ran.text());
        }
        for arguments in [
            &["restore", "web", "latest"][..],
            &["create", "--snapshot", snapshot, "--image", "host"],
            &["snapshot", "delete"],
        ] {
            let ran = ask(project, arguments);
            assert_eq!(ran.code(), Some(2), "{arguments:?}: {}", ran.text());
        }
        let both = ask(project, &["fork", snapshot, "--snapshot-label", "a=b"]);
        assert_eq!(both.code(), Some(125), "{}", both.text());
    });
}
