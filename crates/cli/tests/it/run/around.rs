//! Atoll where something else has confined it already.

use super::{each, is_installed};
use atoll_testkit::run::{Project, Ran, User};

/// What a run says of itself: its sets of capabilities, whether namespaces can be
/// made, and whether the project is written through.
const SCRIPT: &str = "grep -hE '^Cap(Eff|Bnd)' /proc/self/status | tr -d '\\n'; unshare -U true \
    2> /dev/null && echo nested; echo x > made && rm made && echo written";

fn behind(project: &Project, around: &[&str], flags: &[&str]) -> Ran {
    let mut command = project.bare(around[0]);
    command.args(&around[1..]).arg(project.program()).arg("run").args(flags);
    Ran(command.args(["--", "sh", "-c", SCRIPT]).output().unwrap())
}

#[track_caller]
fn works(run: &Ran) {
    let none = "0000000000000000";
    let expected = format!("CapEff:\t{none}CapBnd:\t{none}written\n");
    assert_eq!((run.code(), run.stdout()), (Some(0), expected), "{}", run.text());
}

/// As newer versions of bubblewrap start their command: an ordinary user's
/// namespaces give all capabilities whatever the set was. Root has none left to
/// become the project's owner with, and must not run as root instead.
#[test]
fn an_empty_bounding_set_is_no_obstacle_or_is_named() {
    each(|project| {
        let around = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
        let bare = [&around[..], &["env"]].concat();
        for mode in ["live", "review"] {
            let run = behind(project, &bare, &["--workspace", mode]);
            match project.user {
                User::Ordinary => works(&run),
                User::Root => {
                    assert_eq!((run.code(), run.stdout().as_str()), (Some(125), ""));
                    let text = run.stderr();
                    assert!(text.contains("root without its capabilities"), "{text}");
                    assert!(text.contains("ordinary user"), "{text}");
                }
            }
            works(&behind(project, &["env"], &["--workspace", mode]));
        }
    });
}

#[test]
fn inside_bubblewrap_it_works_or_says_what_is_missing() {
    if !is_installed("bwrap", "bubblewrap") {
        return;
    }
    let ways: [&[&str]; 3] = [
        &["bwrap", "--dev-bind", "/", "/"],
        &["bwrap", "--unshare-user", "--dev-bind", "/", "/"],
        &[
            "bwrap",
            "--unshare-user",
            "--unshare-pid",
            "--unshare-net",
            "--dev-bind",
            "/",
            "/",
            "--proc",
            "/proc",
        ],
    ];
    each(|project| {
        for way in ways {
            for mode in ["live", "review"] {
                let run = behind(project, way, &["--workspace", mode]);
                // There root is alone in its namespace, with nobody to become.
                if project.user == User::Root && way.contains(&"--unshare-user") {
                    assert_eq!(run.code(), Some(125), "{}", run.text());
                    assert!(run.stderr().contains("not in this namespace"), "{}", run.text());
                } else {
                    works(&run);
                }
            }
        }
        let closed = ["bwrap", "--unshare-user", "--disable-userns", "--dev-bind", "/", "/"];
        let run = behind(project, &closed, &[]);
        assert_eq!((run.code(), run.stdout().as_str()), (Some(125), ""), "{}", run.text());
        if project.user == User::Ordinary {
            assert!(run.stderr().contains("the surrounding sandbox"), "{}", run.text());
        }
    });
}
