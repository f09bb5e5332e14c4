//! What holds for every command.

use super::each;
use atoll_testkit::run::Ran;

#[test]
fn version_names_the_program() {
    each(|project| {
        let version = Ran(project.atoll(&["--version"]).output().unwrap());
        assert_eq!(version.code(), Some(0), "{}", version.text());
        assert_eq!(version.stdout(), format!("atoll {}\n", env!("CARGO_PKG_VERSION")));
    });
}
