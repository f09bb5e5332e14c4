//! Files of the project that belong to somebody else, and whose new ones are.

use super::each;
use super::probe::place;
use atoll_testkit::run::{Project, Ran, User};
use atoll_testkit::skip::skip;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

const SOMEBODY: u32 = 54_322;

/// A project with files of somebody else's, for a caller of each kind, and for root
/// in a project of an ordinary user's.
fn each_with_foreign_files(test: impl Fn(&Project)) {
    if !rustix::process::geteuid().is_root() {
        skip("foreign-owners", "run by an ordinary user");
        return;
    }
    let furnish = |project: &Project| {
        for (name, mode) in [("public", 0o644), ("private", 0o600), ("shared", 0o666)] {
            let path = project.root().join(name);
            std::fs::write(&path, "theirs\n").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            std::os::unix::fs::chown(&path, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
        }
        test(project);
    };
    each(furnish);
    let project = Project::new(User::Root, env!("CARGO_BIN_EXE_atoll"));
    User::Ordinary.give(&project.root());
    furnish(&project);
}

#[test]
fn files_of_somebody_else_are_nobodys_and_as_open_as_their_mode_says() {
    let look = "stat -c '%n %u:%g %a' *; cat public; cat shared; cat private; echo $?";
    each_with_foreign_files(|project| {
        for mode in ["live", "review"] {
            let run = project.run_sh(&["--workspace", mode], look);
            let nobody =
                "private 65534:65534 600\npublic 65534:65534 644\nshared 65534:65534 666\n";
            assert_eq!(run.stdout(), format!("{nobody}theirs\ntheirs\n1\n"), "{}", run.text());
            // Their owner stays who it is, whatever the command does.
            let run = project.run_sh(
                &["--workspace", mode],
                "chmod 777 public; chown $(id -u) public; echo x > public; echo x > private; ls public",
            );
            assert_eq!(run.stdout(), "public\n", "{}", run.text());
            project.atoll(&["discard", "--yes"]).output().unwrap();
            for (name, permissions) in [("public", 0o644), ("private", 0o600)] {
                let found = project.root().join(name).metadata().unwrap();
                assert_eq!((found.uid(), found.mode() & 0o7777), (SOMEBODY, permissions), "{name}");
                assert_eq!(project.read(name), "theirs\n");
            }
        }
    });
}

#[test]
fn a_failure_over_them_is_explained_where_outside_there_is_none() {
    each_with_foreign_files(|project| {
        let is_root = project.user == User::Root;
        let words = "files of other owners, which may be why it failed";
        for mode in ["live", "review"] {
            let run = project.run_sh(&["--workspace", mode], "echo x > private");
            assert_ne!(run.code(), Some(0), "{}", run.text());
            let expected = is_root || mode == "review";
            assert_eq!(run.stderr().contains(words), expected, "{mode} {}", run.text());
            assert_eq!(run.stderr().contains("nobody's: private and 2 more"), expected);
            let ran = project.run_sh(&["--workspace", mode], "true");
            assert!(!ran.stderr().contains(words), "{}", ran.text());
        }
        // An overlay copies no file of an owner that its user namespace does not have;
        // root's, for an ordinary user's project, is mounted where all owners are.
        let run = project.run_sh(&["--workspace", "review"], "echo x > shared");
        let is_copied = is_root && project.root().metadata().unwrap().uid() != 0;
        assert_eq!(run.code() == Some(0), is_copied, "{}", run.text());
        assert_eq!(run.stderr().contains(words), !is_copied, "{}", run.text());
        // The control: the caller can do without a sandbox what its rights allow.
        assert_eq!(project.bare_sh("echo x > private").code() == Some(0), is_root);
        assert_eq!(project.bare_sh("echo x > shared").code(), Some(0));
    });
}

#[test]
fn new_files_are_the_callers_with_its_umask_and_without_set_id_bits() {
    let script = "umask 027; mkdir d; echo x > d/f; umask 077; cp d/f g; cp probe s; chmod 4755 s; \
        chmod 2755 s; stat -c '%n %u:%g %a' d d/f g s";
    each(|project| {
        place(project);
        for mode in ["live", "review"] {
            let run = project.run_sh(&["--workspace", mode], script);
            let owner = project.root().metadata().unwrap();
            let own = format!("{}:{}", owner.uid(), owner.gid());
            let lines = format!("d {own} 750\nd/f {own} 640\ng {own} 600\ns {own} ");
            assert!(run.stdout().starts_with(&lines), "{}", run.text());
            if mode == "review" {
                let applied = Ran(project.atoll(&["apply", "--yes"]).output().unwrap());
                assert_eq!(applied.code(), Some(0), "{}", applied.text());
            }
            for (name, permissions) in [("d", 0o750), ("d/f", 0o640), ("g", 0o600)] {
                let found = project.root().join(name).metadata().unwrap();
                let facts = (found.uid(), found.gid(), found.mode() & 0o7777);
                assert_eq!(facts, (owner.uid(), owner.gid(), permissions), "{mode} {name}");
            }
            assert_eq!(project.root().join("s").metadata().unwrap().mode() & 0o4000, 0);
            assert_eq!(project.bare_sh("rm -rf d g s").code(), Some(0));
        }
        // The control: outside the bit is set.
        assert_eq!(project.bare_sh("cp probe s; chmod 4755 s; stat -c %a s").stdout(), "4755\n");
    });
}
