//! Sandboxes that begin with files of this machine.

use super::{Served, ask, each, objects, said};

#[test]
fn a_directory_comes_along_without_what_it_hides() {
    each(|project| {
        let served = Served::start(project, &[]);
        project.write("src/main.sh", "echo \"$(cat word)\"");
        project.write("word", "hello");
        project.write(".atollignore", "secret\n");
        project.write("secret", "hidden");
        let made = objects(project, &["create", "web", "--workspace", ".", "--json"]);
        assert_eq!(made[0]["workspace"], "/home/user/workspace", "{made:?}");
        let run = |shell: &str| {
            let body = serde_json::json!({ "shell": shell });
            let path = "/v1/sandboxes/web/execs?wait_ms=20000";
            let ran = served.ask("POST", path, Some(&body)).body;
            ran["stdout"]["head"]["text"].as_str().unwrap_or_default().to_owned()
        };
        assert_eq!(
            run("cd workspace && sh src/main.sh; ls -A"),
            "hello\n.atollignore\nsrc\nword\n"
        );
        // Also where a policy shows no project to what runs here.
        project.write("atoll.toml", "[workspace]\nmode = \"none\"\n");
        objects(project, &["create", "other", "--workspace", ".", "--json"]);
        let listing = serde_json::json!({ "shell": "ls -A workspace" });
        let path = "/v1/sandboxes/other/execs?wait_ms=20000";
        let listed = served.ask("POST", path, Some(&listing)).body;
        assert_eq!(
            listed["stdout"]["head"]["text"], ".atollignore\natoll.toml\nsrc\nword\n",
            "{listed}"
        );
        said(project, &["delete", "other"]);
        std::fs::remove_file(project.root().join("atoll.toml")).unwrap();
        // What is written there stays there.
        run("echo changed > workspace/word");
        assert_eq!(project.read("word"), "hello");
        // One that is there is given as it is.
        said(project, &["create", "web", "--get", "--workspace", "."]);
        assert_eq!(run("cat workspace/word"), "changed\n");
        said(project, &["delete", "web"]);
        let refused = |arguments: &[&str]| {
            let ran = ask(project, arguments);
            assert_ne!(ran.code(), Some(0), "{}", ran.text());
            ran.stderr()
        };
        let remote = refused(&["create", "web", "--workspace", "https://a.example/b.git"]);
        assert!(remote.contains("only what is in the sandbox is cloned"), "{remote}");
        let missing = refused(&["create", "web", "--workspace", "not/there"]);
        assert!(missing.contains("not/there"), "{missing}");
        assert_eq!(served.state("web"), "");
    });
}
