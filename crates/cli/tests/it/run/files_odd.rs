//! Odd projects: strange names, other people's directories, places that are none;
//! and what files look like afterwards.

use super::each;
use atoll_testkit::run::{Project, Ran, User};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::Path;

fn run_in(project: &Project, directory: &Path, arguments: &[&str]) -> Ran {
    Ran(project.atoll(arguments).current_dir(directory).output().unwrap())
}

#[test]
fn names_are_taken_as_they_are() {
    const NAMES: &[&[u8]] = &[
        b"with space",
        b"new\nline",
        b"caf\xe9",
        b"*",
        b"[a]",
        b"?{x,y}",
        b"$(touch pwned)",
        b"quo'te\"",
        b"-rf",
        b"..x",
        b"back\\slash",
        b" ",
        b"~",
        b":",
        b"a:b",
        b"a,b=c",
        b"%s",
        b"#",
        b"\x1b[31m",
        b"\\040",
    ];
    each(|project| {
        std::fs::create_dir(project.root().join("a")).unwrap();
        for name in NAMES {
            let directory = project.root().join(OsStr::from_bytes(name));
            std::fs::create_dir(&directory).unwrap();
            project.user.give(&directory);
            let script = "echo one > live; basename -- \"$PWD\"; pwd";
            let run = run_in(project, &directory, &["run", "--", "sh", "-c", script]);
            assert_eq!(run.code(), Some(0), "{}", run.text());
            let expected = [*name, b"\n", directory.as_os_str().as_bytes(), b"\n"].concat();
            assert_eq!(run.0.stdout, expected, "{}", run.text());
            assert!(!run.stderr().contains('\x1b'), "{}", run.text());
            let script = "cat live; echo two > review";
            let run = run_in(
                project,
                &directory,
                &["run", "--workspace", "review", "--", "sh", "-c", script],
            );
            assert_eq!(run.stdout(), "one\n", "{}", run.text());
            let run = run_in(project, &directory, &["apply"]);
            assert_eq!(run.code(), Some(0), "{}", run.text());
            let read = |file: &str| std::fs::read_to_string(directory.join(file)).unwrap();
            assert_eq!((&*read("live"), &*read("review")), ("one\n", "two\n"));
        }
        assert_eq!(std::fs::read_dir(project.root()).unwrap().count(), NAMES.len() + 1);
    });
}

#[test]
fn places_that_are_no_project_are_refused_with_the_way_out() {
    each(|project| {
        for place in ["/", "/etc", "/usr", "/dev", "/proc", "/sys", "/var", "/home"] {
            if !Path::new(place).exists() {
                continue;
            }
            let run = run_in(project, Path::new(place), &["run", "--", "true"]);
            assert_eq!(run.code(), Some(125), "{place}: {}", run.text());
            assert!(run.stderr().contains("cannot be a project"), "{place}: {}", run.text());
            assert!(run.stderr().contains("--project DIR"), "{place}: {}", run.text());
        }
        // HOME, what holds it, and both as a grant.
        for place in [project.home(), project.home().parent().unwrap().to_owned()] {
            let run = run_in(project, &place, &["run", "--", "true"]);
            assert_eq!(run.code(), Some(125), "{}", run.text());
            let run = project.run_sh(&["--write", place.to_str().unwrap()], "true");
            assert_eq!(run.code(), Some(125), "{}", run.text());
            assert!(run.stderr().contains("cannot be granted"), "{}", run.text());
        }
        // The control: a directory in HOME is one.
        let inside = project.home().join("work");
        std::fs::create_dir(&inside).unwrap();
        project.user.give(&inside);
        let run = run_in(project, &inside, &["run", "--", "sh", "-c", "echo x > x"]);
        assert_eq!(run.code(), Some(0), "{}", run.text());
        assert!(inside.join("x").exists());
    });
}

#[test]
fn a_deleted_directory_is_named_and_another_can_be() {
    each(|project| {
        let gone = project.outside().join("gone");
        let root = project.root();
        // A shell whose directory is gone starts us.
        let run = |arguments: &str| {
            let atoll = project.atoll(&[]).get_program().to_owned();
            let script = format!(
                "mkdir -p {0}; cd {0}; rmdir {0}; exec {1} {arguments}",
                gone.display(),
                Path::new(&atoll).display()
            );
            project.bare_sh(&script)
        };
        let told = run("run -- true");
        assert_eq!(told.code(), Some(125), "{}", told.text());
        assert!(
            told.stderr().contains("the current directory has been deleted"),
            "{}",
            told.text()
        );
        let told = run(&format!("run --project {} -- pwd", root.display()));
        assert_eq!(told.stdout(), format!("{}\n", root.display()), "{}", told.text());
        for arguments in ["run --project somewhere -- true", "run --policy file.toml -- true"] {
            assert_eq!(run(arguments).code(), Some(125));
        }
    });
}

#[test]
fn a_project_that_is_missing_or_a_file_is_named() {
    each(|project| {
        project.write("file", "");
        for (name, why) in [("missing", "cannot open the project"), ("file", "is not a directory")]
        {
            let path = project.root().join(name);
            let run = project.run_sh(&["--project", path.to_str().unwrap()], "true");
            assert_eq!(run.code(), Some(125), "{}", run.text());
            assert!(run.stderr().contains(why), "{}", run.text());
        }
    });
}

#[test]
fn somebody_elses_directory_is_as_writable_as_it_is_without_a_sandbox() {
    each(|project| {
        let theirs = project.outside().join("theirs");
        std::fs::create_dir(&theirs).unwrap();
        if project.user.uid().is_none() {
            return;
        }
        std::os::unix::fs::chown(&theirs, Some(12_345), Some(12_345)).unwrap();
        let run =
            run_in(project, &theirs, &["run", "--", "sh", "-c", "pwd; echo x > x; echo $?; id -u"]);
        let (status, uid) = match project.user {
            // Root is the owner of the project inside.
            User::Root => ("0", "12345".to_owned()),
            User::Ordinary => ("2", project.user.uid().unwrap().to_string()),
        };
        assert_eq!(
            run.stdout(),
            format!("{}\n{status}\n{uid}\n", theirs.display()),
            "{}",
            run.text()
        );
        if project.user == User::Root {
            assert_eq!(theirs.join("x").metadata().unwrap().uid(), 12_345);
        }
        std::fs::set_permissions(&theirs, PermissionsExt::from_mode(0o700)).unwrap();
        let run = run_in(
            project,
            &project.root(),
            &["run", "--project", theirs.to_str().unwrap(), "--", "true"],
        );
        let expected = if project.user == User::Root { 0 } else { 125 };
        assert_eq!(run.code(), Some(expected), "{}", run.text());
    });
}

#[test]
fn new_files_belong_to_the_caller_with_the_callers_umask() {
    each(|project| {
        for (mask, modes) in [("022", "644 755\n"), ("077", "600 700\n"), ("002", "664 775\n")] {
            for mode in ["live", "review"] {
                let script = format!(
                    "umask {mask}; rm -rf f d; {} run --workspace {mode} -- sh -c 'echo x > f; mkdir d; \
                     stat -c %a f d | tr \"\\n\" \" \"; stat -c %U:%G f d; chmod -R 700 d; umask'; {0} apply --yes; true",
                    Path::new(project.atoll(&[]).get_program()).display()
                );
                let ran = project.bare_sh(&script);
                let modes = modes.trim_end();
                assert!(ran.stdout().starts_with(modes), "{mask} {mode}: {}", ran.text());
                assert!(ran.stdout().contains(&format!("\n0{mask}\n")), "{}", ran.text());
                let root = project.root().metadata().unwrap();
                for name in ["f", "d"] {
                    let made = project.root().join(name).metadata().unwrap();
                    assert_eq!(
                        (made.uid(), made.gid()),
                        (root.uid(), root.gid()),
                        "{mask} {mode} {name}"
                    );
                }
            }
        }
    });
}

/// Tries every call that can make a program take its owner's or group's rights.
const SET_ID: &str = r#"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, act):
    try:
        act()
    except OSError:
        pass
def write(name, mode):
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY, mode))
def by_descriptor(name, mode):
    file = os.open(name, os.O_CREAT | os.O_RDWR, 0o755)
    os.fchmod(file, mode)
def newest(name, mode):
    write(name, 0o755)
    if libc.syscall(452, -100, name.encode(), mode, 0) != 0:
        raise OSError()
def by_path(name, mode):
    write(name, 0o755)
    os.chmod(name, mode)
def temporary(name, mode):
    file = os.open(".", os.O_TMPFILE | os.O_RDWR, mode)
    os.link(f"/proc/self/fd/{file}", name, src_dir_fd=None, follow_symlinks=True)
def creat(name, mode):
    if libc.creat(name.encode(), mode) < 0:
        raise OSError()
os.umask(0)
for mode in (0o4755, 0o2755, 0o6755):
    for act in (write, by_descriptor, newest, by_path, temporary, creat):
        attempt(act, lambda: act(f"{act.__name__}{mode:o}", mode))
    attempt("mknod", lambda: os.mknod(f"node{mode:o}", 0o100000 | mode))
"#;

#[test]
fn no_program_that_takes_its_owners_rights_comes_out() {
    const FIND: &str = "find . -type f -perm /6000 | sort; find . -type f | wc -l";
    each(|project| {
        for mode in ["live", "review"] {
            let script =
                format!("python3 -c '{SET_ID}'; chmod g+s .; mkdir shared; stat -c %A shared");
            let run = project.run_sh(&["--workspace", mode], &script);
            assert!(run.stderr().contains("rule kernel.set-id"), "{}", run.text());
            // Directories hand their group down; that is no program.
            assert!(run.stdout().contains('s'), "{}", run.text());
            project.atoll(&["apply", "--yes"]).output().unwrap();
            let found = project.bare_sh(FIND);
            assert_eq!(found.stdout().lines().count(), 1, "{mode}: {}", found.text());
            assert_ne!(found.stdout(), "0\n", "the files themselves are there");
            let _ran = project.bare_sh("find . -mindepth 1 -delete; chmod g-s .");
        }
        let bare = project.bare_sh(&format!("python3 -c '{SET_ID}'; {FIND}"));
        assert!(bare.stdout().lines().count() > 15, "the control: {}", bare.text());
    });
}

#[test]
fn nothing_is_made_in_the_shared_folder_for_temporary_files() {
    each(|project| {
        let shared = project.outside().join("tmp");
        std::fs::create_dir(&shared).unwrap();
        std::fs::set_permissions(&shared, PermissionsExt::from_mode(0o1777)).unwrap();
        for mode in ["live", "review", "none"] {
            let mut command =
                project.atoll(&["run", "--workspace", mode, "--memory", "1GiB", "--", "true"]);
            let run = Ran(command.env("TMPDIR", &shared).output().unwrap());
            assert_eq!(run.code(), Some(0), "{}", run.text());
            assert_eq!(std::fs::read_dir(&shared).unwrap().count(), 0, "{mode}");
        }
        // What is kept is kept where nobody else looks.
        let run = project.run_sh(&["--workspace", "review"], "echo x > x");
        assert_eq!(run.code(), Some(0), "{}", run.text());
        let found = project.bare_sh(
            "cd; stat -c %a .cache/atoll/projects .cache/atoll/host .local/state/atoll/sessions",
        );
        assert_eq!(found.stdout(), "700\n700\n700\n", "{}", found.text());
    });
}

#[test]
fn a_cache_that_others_can_write_is_not_used() {
    each(|project| {
        let Some(uid) = project.user.uid() else { return };
        let shared = project.outside().join("cache");
        for (owner, mode) in [(12_345, 0o755), (uid, 0o777)] {
            std::fs::create_dir_all(shared.join("atoll")).unwrap();
            std::os::unix::fs::chown(shared.join("atoll"), Some(owner), Some(owner)).unwrap();
            std::fs::set_permissions(shared.join("atoll"), PermissionsExt::from_mode(mode))
                .unwrap();
            let mut command = project.atoll(&["run", "--", "true"]);
            let run = Ran(command.env("XDG_CACHE_HOME", &shared).output().unwrap());
            assert_eq!(run.code(), Some(125), "{owner} {mode:o}: {}", run.text());
            assert!(run.stderr().contains("of your own"), "{}", run.text());
            std::fs::remove_dir_all(&shared).unwrap();
        }
    });
}
