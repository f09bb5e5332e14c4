//! Directories that the user grants for writing beside the project.

use super::each;

const PLANT: &str = "cd \"$0\" && echo data > plain && mkdir -p deep/er; \
    mkdir .vscode; echo evil > .envrc; \
    git init -q r && echo evil > r/.git/hooks/post-commit && chmod +x r/.git/hooks/post-commit; \
    echo evil > old/.git/hooks/pre-commit; git -C old config core.fsmonitor evil; true";

#[test]
fn protected_names_are_protected_in_a_granted_directory_too() {
    each(|project| {
        let outside = project.outside();
        let place = outside.to_str().unwrap();
        let sh = |directory: &str, script: &str| {
            let mut sh = project.bare("sh");
            sh.args(["-c", script, directory]).output().unwrap()
        };
        // The control: the same acts succeed without a sandbox.
        let twin = project.root().join("twin");
        let twin = twin.to_str().unwrap();
        sh(twin, "mkdir \"$0\"; git init -q \"$0/old\"");
        sh(twin, PLANT);
        for planted in [".vscode", ".envrc", "old/.git/hooks/pre-commit"] {
            assert!(project.root().join("twin").join(planted).exists(), "{planted}");
        }
        sh(place, "git init -q \"$0/old\"");
        let mut run = project.atoll(&["run", "--write", place, "--", "sh", "-c", PLANT, place]);
        let run = atoll_testkit::run::Ran(run.output().unwrap());
        assert_eq!(run.code(), Some(0), "{}", run.text());
        assert!(outside.join("plain").exists() && outside.join("deep/er").exists());
        for planted in [".vscode", ".envrc", "old/.git/hooks/pre-commit"] {
            assert!(!outside.join(planted).exists(), "{planted}: {}", run.text());
        }
        let config = std::fs::read_to_string(outside.join("old/.git/config")).unwrap();
        assert!(!config.contains("fsmonitor"), "{config}");
        let hook = outside.join("r/.git/hooks/post-commit");
        use std::os::unix::fs::PermissionsExt;
        let runs = hook.metadata().is_ok_and(|it| it.permissions().mode() & 0o111 != 0);
        assert!(!runs, "{}", run.text());
        assert!(run.stderr().contains("atoll: refused"), "{}", run.text());
    });
}
