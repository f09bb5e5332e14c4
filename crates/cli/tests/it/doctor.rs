//! `atoll doctor` on this machine: its shape, not its findings.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output};

fn doctor(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
    command.arg("doctor").args(arguments).current_dir("/").env_remove("NO_COLOR");
    command
}

fn text(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

/// As whoever runs the tests and, for root, as an ordinary user too.
fn as_each_user(arguments: &[&str], check: impl Fn(&Output)) {
    check(&doctor(arguments).output().unwrap());
    if rustix::process::geteuid().is_root() {
        check(&doctor(arguments).uid(65534).gid(65534).output().unwrap());
    }
}

#[test]
fn text_names_tiers_and_features_without_escapes() {
    as_each_user(&[], |output| {
        let text = text(output);
        for line in ["Tiers\n", "\n  container ", "\n  microvm ", "\nFeatures\n", "\n  cgroups "] {
            assert!(text.contains(line), "{line:?} is not in {text}");
        }
        assert!(!text.contains('\x1b'), "{text}");
        assert!(output.stderr.is_empty(), "{output:?}");
    });
}

#[test]
fn json_is_one_object_that_agrees_with_the_exit_status() {
    as_each_user(&["--json"], |output| {
        let value: serde_json::Value = serde_json::from_str(text(output)).unwrap();
        let verdict = value["tiers"][0]["verdict"].as_str().unwrap();
        assert_eq!(value["ok"], verdict != "does_not_work");
        assert_eq!(output.status.code(), Some(if value["ok"] == true { 0 } else { 1 }));
        assert!(value["features"].as_array().unwrap().len() > 15);
        assert!(value["took_us"].as_u64().unwrap() > 0);
    });
}

#[test]
fn the_profile_is_for_the_program_that_ran() {
    let output = doctor(&["--apparmor"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let path = env!("CARGO_BIN_EXE_atoll");
    if output.status.success() {
        assert!(text(&output).contains(&format!("@{{atoll_path}} = {path}\n")), "{output:?}");
    } else {
        // The build directory's name may be one that a profile cannot hold.
        assert!(stderr.contains(path), "{stderr}");
    }
    let both = doctor(&["--apparmor", "--json"]).output().unwrap();
    assert_eq!(both.status.code(), Some(2), "{both:?}");
}
