//! Places of the host that everybody can write: nothing is made there under a name
//! that could be foreseen, and what was planted there is not followed.

use super::each;
use atoll_testkit::run::{Project, Ran};
use atoll_testkit::skip::{is_installed, skip};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

const MODES: [&str; 3] = ["live", "review", "none"];

/// Names in places that everybody can write which some call of the program's own
/// took; the project itself lies in one.
fn shared_names(project: &Project, trace: &str) -> Vec<String> {
    let base = project.root().parent().unwrap().display().to_string();
    let program = project.program().display().to_string();
    let is_shared = |name: &str| {
        ["/tmp/", "/var/tmp/", "/dev/shm/", "/run/lock/"].iter().any(|it| name.starts_with(it))
    };
    let names = trace.split('"').filter(|name| is_shared(name));
    let foreign = names.filter(|name| !name.starts_with(&base) && !name.starts_with(&program));
    foreign.map(str::to_owned).collect()
}

#[test]
fn nothing_is_made_in_shared_places() {
    if !is_installed("strace", "debuggers") {
        return;
    }
    each(|project| {
        let trace = project.outside().join("trace");
        let trace = trace.to_str().unwrap();
        let traced = |words: &[&str]| {
            let mut strace = project.bare("strace");
            strace.args(["-f", "-s", "4096", "-e", "trace=%file", "-o", trace]).args(words);
            let ran = Ran(strace.env_remove("TMPDIR").output().unwrap());
            (ran, std::fs::read_to_string(trace).unwrap())
        };
        let program = project.program().to_str().unwrap();
        for mode in MODES {
            let words = [program, "run", "--workspace", mode, "--timeout", "60s", "--", "true"];
            let (ran, made) = traced(&words);
            assert_eq!(ran.code(), Some(0), "{}", ran.text());
            assert!(made.contains("atoll"), "{made}");
            assert_eq!(shared_names(project, &made), [""; 0], "{mode}");
        }
        // The control: what does make something there is seen.
        let (_, made) = traced(&["sh", "-c", "test -e /tmp/some-name"]);
        assert_eq!(shared_names(project, &made), ["/tmp/some-name"]);
    });
}

/// A link under a name that a program inside is known to use: the host's `/tmp` is
/// not the sandbox's.
#[test]
fn a_link_that_was_planted_is_not_there_inside() {
    each(|project| {
        let target = project.outside().join("target");
        std::fs::write(&target, "before").unwrap();
        project.user.give(&target);
        let name = format!("atoll-planted-{}-{:?}", std::process::id(), project.user);
        for place in ["/tmp", "/var/tmp", "/dev/shm"] {
            let link = Path::new(place).join(&name);
            let link = link.to_str().unwrap();
            // Whose link it is the kernel may ask about too (fs.protected_symlinks).
            symlink(&target, link).unwrap();
            project.user.give(Path::new(link));
            let script = format!(
                "test -L {link} && echo there; echo evil > {link}; ls {place} | grep planted-"
            );
            let inside = MODES.map(|mode| project.run_sh(&["--workspace", mode], &script));
            let kept = std::fs::read_to_string(&target).unwrap();
            let control = project.bare_sh(&script);
            let followed = std::fs::read_to_string(&target).unwrap();
            std::fs::remove_file(link).unwrap();
            for run in inside {
                assert_eq!(run.stdout(), format!("{name}\n"), "{place} {}", run.text());
            }
            assert_eq!((kept.as_str(), followed.as_str()), ("before", "evil\n"), "{place}");
            assert!(control.stdout().starts_with("there\n"), "{}", control.text());
            std::fs::write(&target, "before").unwrap();
        }
    });
}

/// Everybody's directory as the place of the caches or of the sessions, with
/// somebody else's in it.
#[test]
fn caches_and_sessions_are_not_kept_where_somebody_else_could_write() {
    if !rustix::process::geteuid().is_root() {
        skip("foreign-owners", "run by an ordinary user");
        return;
    }
    const SOMEBODY: u32 = 54_322;
    let own =
        |path: &Path| std::os::unix::fs::lchown(path, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    each(|project| {
        for variable in ["XDG_CACHE_HOME", "XDG_STATE_HOME"] {
            for kind in ["a link", "a directory"] {
                let shared = project.outside().join(format!("{variable} {kind}"));
                std::fs::create_dir(&shared).unwrap();
                open(&shared, 0o1777);
                let theirs = project.outside().join("theirs");
                std::fs::create_dir_all(theirs.join("sessions")).unwrap();
                own(&theirs);
                open(&theirs, 0o777);
                let planted = shared.join("atoll");
                if kind == "a link" {
                    symlink(&theirs, &planted).unwrap();
                } else {
                    std::fs::create_dir(&planted).unwrap();
                    open(&planted, 0o777);
                }
                own(&planted);
                let words = ["run", "--workspace", "review", "--", "touch", "made"];
                let mut run = project.atoll(&words);
                let run = Ran(run.env(variable, &shared).output().unwrap());
                assert_eq!(run.code(), Some(125), "{variable}, {kind}: {}", run.text());
                assert!(run.stderr().contains("hint: "), "{}", run.text());
                assert_eq!(std::fs::read_dir(theirs.join("sessions")).unwrap().count(), 0);
            }
            // The control: a directory of the caller's own, private from the start.
            let mine = project.outside().join(format!("{variable} mine"));
            let words = ["run", "--workspace", "review", "--", "touch", "made"];
            let run = Ran(project.atoll(&words).env(variable, &mine).output().unwrap());
            assert_eq!(run.code(), Some(0), "{}", run.text());
            let made = mine.join("atoll").metadata().unwrap();
            let is_own = project.user.uid().is_none_or(|uid| uid == made.uid());
            assert!(is_own && made.mode() & 0o777 == 0o700, "{variable}: {:o}", made.mode());
            project.atoll(&["discard", "--yes"]).env(variable, &mine).output().unwrap();
        }
    });
}
