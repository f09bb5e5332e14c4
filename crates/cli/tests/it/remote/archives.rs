//! Archives by the command line: made, listed, restored, deleted, and what is said where there is no
//! place for them.

use super::{Served, ask, each, objects, said};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

#[test]
fn a_snapshot_goes_into_a_folder_and_comes_back() {
    each(|project| {
        let (folder, key) = (project.outside().join("store"), project.outside().join("key"));
        std::fs::write(&key, format!("{}\n", "0f".repeat(32))).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        // It is the server's own.
        let owner = project.outside().metadata().unwrap();
        std::os::unix::fs::chown(&key, Some(owner.uid()), Some(owner.gid())).unwrap();
        let place = format!("file://{}", folder.display());
        let flags = ["--archive", &place, "--archive-key-file", key.to_str().unwrap()];
        let _served = Served::start(project, &flags);
        said(project, &["create", "web"]);
        said(project, &["exec", "web", "--", "sh", "-c", "echo one > state"]);
        said(project, &["stop", "web"]);
        let snapshot = said(project, &["snapshot", "create", "web"]).trim().to_owned();

        let made = ask(project, &["archive", "create", &snapshot]);
        assert_eq!(made.code(), Some(0), "{}", made.text());
        let archive = made.stdout().trim().to_owned();
        assert!(archive.starts_with("arc_") && made.stdout().lines().count() == 1, "{archive}");
        assert!(made.stderr().starts_with("atoll: 1 of 1 layers were sent, "), "{}", made.text());
        let again = objects(project, &["archive", "create", &snapshot, "--json"]);
        assert_eq!(
            (&again[0]["sent_layers"], &again[0]["archive"]["id"]),
            (&0.into(), &archive.clone().into())
        );
        let listed = said(project, &["archive", "list"]);
        let row: Vec<&str> = listed.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row[..3], [archive.as_str(), "snapshot", "web"], "{listed}");
        assert_eq!(said(project, &["archive", "list", "-q"]), format!("{archive}\n"));
        let shown = objects(project, &["archive", "show", &archive, "--json"]);
        assert_eq!(
            (&shown[0]["snapshot_id"], &shown[0]["is_encrypted"]),
            (&snapshot.clone().into(), &true.into())
        );

        // Nothing of it is here any more.
        said(project, &["delete", "web"]);
        said(project, &["snapshot", "delete", &snapshot]);
        let back = said(project, &["archive", "restore", &archive]).trim().to_owned();
        assert!(back.starts_with("snp_") && back != snapshot, "{back}");
        assert_eq!(objects(project, &["snapshot", "show", &back, "--json"])[0]["way"], "archive");
        said(project, &["create", "again", "--snapshot", &back]);
        assert_eq!(said(project, &["exec", "again", "--", "cat", "state"]), "one\n");
        assert_eq!(said(project, &["archive", "delete", &archive]), "");
        let gone = ask(project, &["archive", "restore", &archive]);
        assert!(
            gone.code() == Some(1) && gone.stderr().contains("there is no archive"),
            "{}",
            gone.text()
        );
    });
}

#[test]
fn a_sandbox_goes_into_a_folder_and_comes_back() {
    each(|project| {
        let place = format!("file://{}", project.outside().join("store").display());
        let _served = Served::start(project, &["--archive", &place]);
        said(project, &["create", "web", "--label", "a=b"]);
        let write =
            "mkdir d && echo one > d/state && ln -s state d/link && umask 077 && echo x > s";
        said(project, &["exec", "web", "--", "sh", "-c", write]);
        let refused = ask(project, &["archive", "create", "web"]);
        assert!(
            refused.code() == Some(1) && refused.stderr().contains("is running"),
            "{}",
            refused.text()
        );
        let made = ask(project, &["archive", "create", "--stop", "web"]);
        assert_eq!(made.code(), Some(0), "{}", made.text());
        assert!(made.stderr().starts_with("atoll: 1 of 1 layers were sent, "), "{}", made.text());
        let archive = made.stdout().trim().to_owned();
        let shown = &objects(project, &["show", "web", "--json"])[0];
        assert_eq!((&shown["state"], &shown["labels"]["a"]), (&"archived".into(), &"b".into()));
        assert_eq!(shown["archive_id"], archive.as_str());
        let listed = said(project, &["archive", "list"]);
        let row: Vec<&str> = listed.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row[..3], [archive.as_str(), "sandbox", "web"], "{listed}");
        let refused = ask(project, &["archive", "delete", &archive]);
        assert!(refused.stderr().contains("which is archived"), "{}", refused.text());

        // By name, and by whoever asks something of it.
        said(project, &["resume", "web"]);
        let read = ["exec", "web", "--", "sh", "-c", "cat d/link && stat -c %a s"];
        assert_eq!(said(project, &read), "one\n600\n");
        said(project, &["exec", "web", "--", "sh", "-c", "echo two > d/state"]);
        said(project, &["archive", "create", "--stop", "web"]);
        assert_eq!(said(project, &read), "two\n600\n");

        // Its archive goes with it, or stays.
        let archive = said(project, &["archive", "create", "--stop", "web"]).trim().to_owned();
        said(project, &["delete", "web", "--keep-archive"]);
        let again = said(project, &["archive", "restore", &archive]).trim().to_owned();
        assert!(again.starts_with("sbx_"), "{again}");
        let row = &objects(project, &["show", "web", "--json"])[0];
        assert_eq!(row["id"], again.as_str());
        assert_eq!(said(project, &read), "two\n600\n");
    });
}

#[test]
fn without_a_place_it_is_said_how_to_have_one() {
    each(|project| {
        let _served = Served::start(project, &[]);
        let refused = ask(project, &["archive", "list"]);
        assert_eq!(refused.code(), Some(1), "{}", refused.text());
        assert!(refused.stderr().contains("--archive URL"), "{}", refused.text());
    });
}
