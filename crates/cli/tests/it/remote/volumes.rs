//! Volumes by the command line: made, shown in sandboxes, refused, and there after a server was
//! killed.

use super::{Served, ask, each, objects, said};
use atoll_testkit::run::Project;
use rustix::process::Signal;

/// What a line of shell prints in a sandbox.
fn sh(project: &Project, sandbox: &str, script: &str) -> String {
    said(project, &["exec", sandbox, "--", "sh", "-c", script])
}

#[test]
fn a_volume_is_made_shown_and_deleted() {
    each(|project| {
        let _served = Served::start(project, &[]);
        let flags = &flags(project);
        if !flags["volumes"].as_bool().unwrap() {
            return atoll_testkit::skip::skip("volumes", "files cannot be shown with other owners");
        }
        let made = said(project, &["volume", "create", "data", "--label", "n=1"]);
        assert!(made.starts_with("vol_") && made.lines().count() == 1, "{made}");
        let taken = ask(project, &["volume", "create", "data"]);
        assert_eq!(taken.code(), Some(1), "{}", taken.text());
        assert!(taken.stderr().contains("belongs to volume vol_"), "{}", taken.text());
        said(project, &["create", "one", "--volume", "data:/data"]);
        sh(project, "one", "echo kept > /data/file");
        let refused = ask(project, &["create", "two", "--volume", "data:/data"]);
        assert_eq!(refused.code(), Some(1), "{}", refused.text());
        for text in ["has it as writer", "sandbox one (sbx_", "stop or delete that sandbox"] {
            assert!(refused.stderr().contains(text), "{text}: {}", refused.text());
        }
        said(project, &["create", "two", "--volume", "data:/home/user/in:ro"]);
        assert_eq!(sh(project, "two", "cat in/file"), "kept\n");
        let listed = said(project, &["volume", "list"]);
        let row: Vec<&str> = listed.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row[0], "data");
        assert!(row[3..].contains(&"one:/data:writer"), "{listed}");
        assert!(row[3..].contains(&"two:/home/user/in:read_only"), "{listed}");
        assert_eq!(said(project, &["volume", "list", "-q", "--label", "n=2"]), "");
        let shown = objects(project, &["volume", "show", "data", "--json"]);
        assert_eq!(shown[0]["used_by"].as_array().unwrap().len(), 2);
        let in_use = ask(project, &["volume", "delete", "data"]);
        assert_eq!(in_use.code(), Some(1), "{}", in_use.text());
        assert!(in_use.stderr().contains("is in use by sandbox sbx_"), "{}", in_use.text());
        // Who shares is warned; one that is stopped is in brackets.
        said(project, &["stop", "one"]);
        let shared = ask(project, &["create", "three", "--volume", "data:/data:shared"]);
        assert_eq!(shared.code(), Some(0), "{}", shared.text());
        assert!(shared.stderr().contains("may write to this volume"), "{}", shared.text());
        assert!(said(project, &["volume", "list"]).contains("[one:/data:writer]"));
        let refused = ask(project, &["start", "one"]);
        assert_eq!(refused.code(), Some(1), "{}", refused.text());
        said(project, &["delete", "one", "two", "three"]);
        // A snapshot is a volume that nobody writes to; it can be exported, and copied.
        let taken = ask(project, &["volume", "snapshot", "data", "monday", "--label", "n=2"]);
        assert_eq!(taken.code(), Some(0), "{}", taken.text());
        assert!(taken.stderr().starts_with("atoll: copied by "), "{}", taken.text());
        let shown = objects(project, &["volume", "show", "monday", "--json"]);
        assert_eq!(shown[0]["is_read_only"], true);
        let refused = ask(project, &["create", "four", "--volume", "monday:/data"]);
        assert!(refused.stderr().contains("read-only for good"), "{}", refused.text());
        let archive = said(project, &["volume", "export", "monday"]);
        assert!(archive.starts_with("file\0") && archive.contains("kept\n"), "{archive:.200}");
        let missing = ask(project, &["volume", "export", "none"]);
        assert_eq!((missing.code(), missing.stdout().len()), (Some(1), 0), "{}", missing.text());
        said(project, &["volume", "create", "tuesday", "--copy-of", "monday"]);
        said(project, &["create", "four", "--volume", "tuesday:/data"]);
        assert_eq!(sh(project, "four", "echo more >> /data/file; cat /data/file"), "kept\nmore\n");
        said(project, &["delete", "four"]);
        said(project, &["volume", "delete", "monday", "tuesday"]);
        said(project, &["volume", "delete", "data"]);
        assert_eq!(said(project, &["volume", "list", "--json"]), "");
    });
}

#[test]
fn a_volume_has_a_limit_that_can_be_raised() {
    each(|project| {
        let _served = Served::start(project, &[]);
        if !flags(project)["volumes"].as_bool().unwrap() {
            return atoll_testkit::skip::skip("volumes", "files cannot be shown with other owners");
        }
        said(project, &["volume", "create", "data", "--limit", "2MiB"]);
        said(project, &["create", "one", "--volume", "data:/data"]);
        sh(project, "one", "head -c 1500000 /dev/urandom > /data/file");
        let refused = ask(project, &["volume", "limit", "data", "1MiB"]);
        assert_eq!(refused.code(), Some(1), "{}", refused.text());
        assert!(refused.stderr().contains("volume data is full"), "{}", refused.text());
        assert_eq!(said(project, &["volume", "limit", "data", "4MiB"]), "");
        let listed = said(project, &["volume", "list"]);
        assert!(listed.contains("1.4 MiB of 4.0 MiB"), "{listed}");
        said(project, &["volume", "limit", "data", "none"]);
        let shown = objects(project, &["volume", "show", "data", "--json"]);
        assert!(shown[0].get("limit").is_none(), "{shown:?}");
        let refused = ask(project, &["volume", "limit", "data", "much"]);
        assert_eq!(refused.code(), Some(2), "{}", refused.text());
        assert!(refused.stderr().contains("or write none"), "{}", refused.text());
        said(project, &["delete", "one"]);
        said(project, &["volume", "delete", "data"]);
    });
}

#[test]
fn a_folder_is_a_volume_where_the_settings_grant_it() {
    each(|project| {
        let place = project.root().canonicalize().unwrap();
        let (granted, settings) = (place.join("granted"), place.join("serve.toml"));
        std::fs::create_dir(&granted).unwrap();
        std::fs::write(granted.join("file"), "theirs\n").unwrap();
        let folders = format!("[volumes]\nhost_folders = [{granted:?}]\n");
        std::fs::write(&settings, folders).unwrap();
        let _served = Served::start(project, &["--config", settings.to_str().unwrap()]);
        if !flags(project)["volumes"].as_bool().unwrap() {
            return atoll_testkit::skip::skip("volumes", "files cannot be shown with other owners");
        }
        let create = |path: &str| {
            let wanted = ["volume", "create", "data", "--read-only", "--host-path", path];
            ask(project, &wanted)
        };
        let refused = create("/etc");
        assert_eq!(refused.code(), Some(1), "{}", refused.text());
        assert!(refused.stderr().contains("host_folders"), "{}", refused.text());
        let path = granted.to_str().unwrap();
        let made = create(path);
        assert_eq!(made.code(), Some(0), "{}", made.text());
        said(project, &["create", "one", "--volume", "data:/data:ro"]);
        assert_eq!(sh(project, "one", "cat /data/file"), "theirs\n");
        let refused = ask(project, &["exec", "one", "--", "/bin/sh", "-c", "echo x > /data/file"]);
        assert_ne!(refused.code(), Some(0), "{}", refused.text());
        said(project, &["delete", "one"]);
        said(project, &["volume", "delete", "data"]);
        assert!(granted.join("file").exists());
    });
}

pub(super) fn flags(project: &Project) -> serde_json::Value {
    let socket = super::socket(project);
    let answer = crate::serve::support::try_ask(&socket, "GET", "/v1/capabilities", None).unwrap();
    answer.body["flags"].clone()
}

#[test]
fn a_server_that_is_killed_has_lost_no_volume_and_no_claim() {
    each(|project| {
        let mut served = Served::start(project, &[]);
        if !flags(project)["volumes"].as_bool().unwrap() {
            return atoll_testkit::skip::skip("volumes", "files cannot be shown with other owners");
        }
        said(project, &["volume", "create", "data"]);
        said(project, &["create", "one", "--volume", "data:/data"]);
        sh(project, "one", "echo kept > /data/file");
        for round in 0..3 {
            let name = format!("other-{round}");
            // In the midst of making and deleting.
            let mut commands = [["volume", "create", &name], ["volume", "delete", "data"]]
                .map(|arguments| super::command(project, &arguments).spawn().unwrap());
            served.signal(Signal::KILL);
            served.child.wait().unwrap();
            for command in &mut commands {
                command.wait().unwrap();
            }
            served.again();
            assert_eq!(sh(project, "one", "cat /data/file"), "kept\n");
            let refused = ask(project, &["create", "two", "--volume", "data:/data"]);
            assert_eq!(refused.code(), Some(1), "{}", refused.text());
            // What is there is what is listed.
            let listed = said(project, &["volume", "list", "-q"]);
            let kept = project.outside().join("state/sandboxes/volumes");
            let found = std::fs::read_dir(&kept).unwrap_or_else(|error| {
                panic!("{}: {error}", kept.display());
            });
            assert_eq!(found.count(), listed.lines().count(), "{listed}");
        }
    });
}
