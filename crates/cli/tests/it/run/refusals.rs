//! Where a sandbox cannot be made nothing runs, and the text says what is missing.
//! What lies in the project neither widens nor redirects anything.

use super::each;
use super::probe::place;
use atoll_testkit::run::{Project, Ran, User};
use std::time::{Duration, Instant};

/// Runs `atoll run -- touch ran` behind `around`.
fn behind(project: &Project, around: &[&str]) -> Ran {
    let mut command = project.bare(around[0]);
    command.args(&around[1..]).arg(project.program()).args(["run", "--", "touch", "ran"]);
    Ran(command.output().unwrap())
}

fn is_refused(project: &Project, run: &Ran, words: &[&str]) {
    assert_eq!(run.code(), Some(125), "{}", run.text());
    for word in words {
        assert!(run.stderr().contains(word), "no {word} in {}", run.text());
    }
    assert!(!project.root().join("ran").exists(), "it ran unconfined");
}

#[test]
fn without_user_namespaces_nothing_runs_and_the_switch_is_named() {
    each(|project| {
        // With the right to write the switch, which the program itself loses.
        let off = "echo 0 > /proc/sys/user/max_user_namespaces || exit 1
            exec setpriv --ambient-caps -all --inh-caps -all \"$@\"";
        let around = ["unshare", "-U", "-c", "--keep-caps", "sh", "-c", off, "sh"];
        let words = match project.user {
            User::Ordinary => &["user.max_user_namespaces = 0", "sysctl", "atoll doctor"][..],
            // Alone in a namespace there is nobody that root could become.
            User::Root => &["who is not in this namespace", "ordinary user"],
        };
        is_refused(project, &behind(project, &around), words);
        let control = behind(project, &["env"]);
        assert_eq!(control.code(), Some(0), "{}", control.text());
        assert!(project.root().join("ran").exists());
    });
}

/// Each wall is needed: without its call there is no run.
#[test]
fn without_a_wall_nothing_runs() {
    let (enosys, eperm, einval, eopnotsupp) = ("38", "1", "22", "95");
    let missing = [
        ("landlock_create_ruleset", enosys, "Landlock"),
        ("landlock_create_ruleset", eopnotsupp, "Landlock"),
        ("landlock_restrict_self", eperm, "Landlock"),
        ("seccomp", einval, "notify"),
        ("mount_setattr", enosys, "Function not implemented"),
        ("move_mount", eperm, "move_mount"),
        ("fsopen", enosys, "fsopen"),
        ("open_tree", eperm, "Operation not permitted"),
        ("pivot_root", eperm, "pivot_root"),
        ("umount2", eperm, "umount2"),
        ("capset", eperm, "capset"),
        ("close_range", enosys, "close_range"),
        ("socketpair", eperm, "Operation not permitted"),
    ];
    each(|project| {
        place(project);
        for (call, errno, word) in missing {
            let around = ["./probe", "--without", call, errno, "--"];
            is_refused(project, &behind(project, &around), &[word, "atoll doctor"]);
        }
        // The control: a filter of its own is not what stops it.
        let run = behind(project, &["./probe", "--without", "acct", eperm, "--"]);
        assert_eq!(run.code(), Some(0), "{}", run.text());
        assert!(project.root().join("ran").exists());
    });
}

#[test]
fn a_namespace_that_is_refused_is_explained() {
    each(|project| {
        place(project);
        // EPERM of the surrounding filter, as in a container.
        for call in ["clone", "unshare", "clone3"] {
            let around = ["./probe", "--without", call, "1", "--"];
            // Of the surrounding program or, where this is a container, its own.
            let words = ["seccomp filter", "atoll doctor"];
            is_refused(project, &behind(project, &around), &words);
        }
    });
}

#[test]
fn a_policy_in_the_project_may_only_narrow() {
    each(|project| {
        for text in [
            "[kernel]\nptrace = true\n",
            "[kernel]\nnested_userns = true\n",
            "[limits]\npids = \"none\"\n",
            "[env.set]\nLD_PRELOAD = \"x\"\n",
        ] {
            project.write("atoll.toml", text);
            let run = project.run_sh(&[], "touch ran");
            is_refused(project, &run, &["atoll.toml"]);
        }
        // What it narrows holds.
        project.write("atoll.toml", "[limits]\nopen_files = 64\n");
        let run = project.run_sh(&[], "touch ran; ulimit -n");
        assert_eq!((run.code(), run.stdout().as_str()), (Some(0), "64\n"), "{}", run.text());
    });
}

/// Files that tools read their environment from are content, nothing more.
#[test]
fn files_of_the_project_do_not_steer_the_launcher() {
    each(|project| {
        let evil = project.root().join("evil");
        let trusted = "[kernel]\nptrace = true\n";
        project.write("evil/atoll/config.toml", trusted);
        project.write("evil/.config/atoll/config.toml", trusted);
        let lines = format!(
            "XDG_CONFIG_HOME={0}\nHOME={0}\nXDG_STATE_HOME={0}\nSHELL={0}/sh\nPATH={0}\n\
             LD_PRELOAD={0}/x.so\nATOLL_POLICY={0}/atoll/config.toml\n",
            evil.display()
        );
        project.write(".env", &lines);
        project.write(".envrc", lines.lines().map(|l| format!("export {l}\n")).collect::<String>());
        project.write(".claude/settings.json", "{\"sandbox\": {\"enabled\": false}}");
        place(project);
        let run = project.run_sh(&[], "echo $HOME; ./probe ptrace 16 0x7ffffff 0 0");
        assert_eq!(run.stdout(), format!("{}\n1\n", project.home().display()), "{}", run.text());
        // The control: the same policy from where the user's own lies does count.
        let own = project.home().join(".config/atoll");
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("config.toml"), trusted).unwrap();
        project.user.give(&project.home().join(".config"));
        let run = project.run_sh(&[], "./probe ptrace 16 0x7ffffff 0 0");
        assert_eq!(run.stdout(), "3\n", "{}", run.text());
    });
}

/// A directory that borrows another's name, by a link, gets no trust by it: what
/// counts is where the project really is.
#[test]
fn trust_goes_by_the_real_path() {
    each(|project| {
        let trusted = project.outside().join("trusted");
        std::fs::create_dir_all(&trusted).unwrap();
        std::fs::write(trusted.join("file"), "").unwrap();
        project.user.give(&project.outside());
        let link = project.root().join("link");
        std::os::unix::fs::symlink(&trusted, &link).unwrap();
        // Named through the link, the project is the real directory, and nothing
        // of the one that holds the link is there.
        let mut command = project.atoll(&["run", "--project"]);
        command.arg(&link).args(["--", "sh", "-c", "pwd; ls; ls ../../project 2>/dev/null"]);
        let run = Ran(command.output().unwrap());
        let expected = format!("{}\nfile\n", trusted.display());
        assert_eq!(run.stdout(), expected, "{}", run.text());
        // A policy that the project reaches by a link is the project's, no more.
        let policy = project.outside().join("policy.toml");
        std::fs::write(&policy, "[kernel]\nptrace = true\n").unwrap();
        std::os::unix::fs::symlink(&policy, project.root().join("atoll.toml")).unwrap();
        is_refused(project, &project.run_sh(&[], "touch ran"), &["atoll.toml"]);
    });
}

/// Nothing that the project holds keeps a command from starting for long.
#[test]
fn the_start_is_bounded_in_a_large_project() {
    each(|project| {
        let script = "mkdir deep; cd deep; for d in $(seq 100); do mkdir $d; cd $d; done
            cd \"$0\"; for d in $(seq 30); do mkdir w$d; (cd w$d; seq 100 | xargs touch); done
            mkfifo pipe; ln -s / root; ln -s . loop";
        let root = project.root();
        let made = project.bare("sh").args(["-c", script]).arg(&root).status().unwrap();
        assert!(made.success());
        let start = Instant::now();
        let run = project.run_sh(&["--hide", "secret*", "--json"], "true");
        assert_eq!(run.code(), Some(0), "{}", run.text());
        assert!(start.elapsed() < Duration::from_secs(20));
        let running = run.json()["timeline"]["running"].as_u64().unwrap();
        assert!(running < 10_000_000, "{running} us");
    });
}
