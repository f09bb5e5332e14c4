//! `atoll doctor` on this machine: its shape, not its findings.

use super::each;
use atoll_testkit::run::{Project, Ran};

fn doctor(project: &Project, arguments: &[&str]) -> Ran {
    let mut command = project.atoll(&["doctor"]);
    Ran(command.args(arguments).current_dir("/").output().unwrap())
}

#[test]
fn text_names_tiers_and_features_without_escapes() {
    each(|project| {
        let doctor = doctor(project, &[]);
        let text = doctor.stdout();
        for line in ["Tiers\n", "\n  container ", "\n  microvm ", "\nFeatures\n", "\n  cgroups "] {
            assert!(text.contains(line), "{line:?} is not in {text}");
        }
        assert!(!text.contains('\x1b'), "{text}");
        assert_eq!(doctor.stderr(), "");
    });
}

#[test]
fn json_is_one_object_that_agrees_with_the_exit_status() {
    each(|project| {
        let doctor = doctor(project, &["--json"]);
        let value: serde_json::Value = serde_json::from_str(&doctor.stdout()).unwrap();
        let verdict = value["tiers"][0]["verdict"].as_str().unwrap();
        assert_eq!(value["ok"], verdict != "does_not_work");
        assert_eq!(doctor.code(), Some(if value["ok"] == true { 0 } else { 1 }));
        assert!(value["features"].as_array().unwrap().len() > 15);
        assert!(value["took_us"].as_u64().unwrap() > 0);
    });
}

#[test]
fn the_profile_is_for_the_program_that_ran() {
    each(|project| {
        let profile = doctor(project, &["--apparmor"]);
        let path = project.program().display();
        if profile.code() == Some(0) {
            let line = format!("@{{atoll_path}} = {path}\n");
            assert!(profile.stdout().contains(&line), "{}", profile.text());
        } else {
            // The build directory's name may be one that a profile cannot hold.
            assert!(profile.stderr().contains(&path.to_string()), "{}", profile.text());
        }
        let both = doctor(project, &["--apparmor", "--json"]);
        assert_eq!(both.code(), Some(2), "{}", both.text());
    });
}
