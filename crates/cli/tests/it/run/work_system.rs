//! What needs the system itself: it fails, and a hint says why.

use super::each;

/// Runs the words, and gives the lines with a guess.
fn guesses(project: &atoll_testkit::run::Project, words: &[&str]) -> String {
    let mut run = project.atoll(&["run", "--"]);
    let output = run.args(words).output().unwrap();
    assert!(!output.status.success(), "{words:?} worked");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.lines().filter(|line| line.contains("(likely)")).collect()
}

#[test]
fn what_cannot_work_inside_fails_with_a_hint() {
    each(|project| {
        for (words, rule) in [
            (&["sudo", "true"][..], "system.privileges"),
            (&["bash", "-c", "apt-get install --yes hello"], "system.packages"),
            (&["docker", "ps"], "system.containers"),
            (&["chown", "1:1", "."], "system.owners"),
            (&["systemctl", "status"], "system.services"),
            (&["systemd-run", "--user", "true"], "system.services"),
            (&["tmux", "run-shell", "true"], "system.sessions"),
            (&["sh", "-c", "tmux run-shell true"], "system.sessions"),
            (&["ssh-add", "-l"], "system.keys"),
            (&["ping", "-c", "1", "192.0.2.1"], "network.ping"),
            (&["sh", "-c", "watchman watch-list"], "system.watchers"),
        ] {
            let hint = guesses(project, words);
            assert!(hint.contains(rule), "{words:?}: {hint}");
        }
        let hint = guesses(project, &["xdg-open", "https://example.org/login"]);
        assert!(hint.contains("https://example.org/login"), "{hint}");
        // A failure that has nothing to do with it is not explained.
        assert_eq!(guesses(project, &["false"]), "");
    });
}

#[test]
fn a_guess_is_not_exact_in_json() {
    each(|project| {
        let json = project.run_sh(&["--json"], "sudo true").json();
        let denial = &json["denials"][0]["refusal"];
        assert_eq!(
            (&denial["rule"], &denial["exact"]),
            (&"system.privileges".into(), &false.into())
        );
        // A command that works was not refused anything.
        let json = project.run_sh(&["--json"], "true; echo sudo").json();
        assert_eq!(json["denials"].as_array().unwrap().len(), 0, "{json}");
    });
}

#[test]
fn a_program_that_was_just_written_runs() {
    each(|project| {
        let script = "cp /bin/true a; i=0; while [ $i -lt 300 ]; do i=$((i+1))
            printf '#!/bin/sh\nexit 0\n' > a && ./a || exit 1; done";
        let run = project.run_sh(&[], script);
        assert_eq!(run.code(), Some(0), "{}", run.text());
    });
}
