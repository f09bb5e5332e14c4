//! What holds for every command.

use std::process::Command;

#[test]
fn version_names_the_program() {
    let output = Command::new(env!("CARGO_BIN_EXE_atoll")).arg("--version").output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, format!("atoll {}\n", env!("CARGO_PKG_VERSION")));
}
