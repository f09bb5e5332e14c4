//! New namespaces: refused by two walls, or let and still of no use against the
//! sandbox.

use super::each;
use atoll_testkit::run::{Ran, User};

#[test]
fn new_user_namespaces_are_refused_and_told() {
    let script = "unshare -U true";
    each(|project| {
        assert_eq!(project.bare_sh(script).code(), Some(0));
        let run = project.run_sh(&[], script);
        assert_ne!(run.code(), Some(0));
        assert!(run.stderr().contains("kernel.namespaces"), "{}", run.text());
        assert!(run.stderr().contains("--allow nested-userns"), "{}", run.text());
    });
}

/// Not the filter's doing: the limit is the user namespace's own.
#[test]
fn the_kernels_limit_forbids_them_too_and_cannot_be_raised() {
    let limit = "/proc/sys/user/max_user_namespaces";
    each(|project| {
        let script = format!("cat {limit}; echo 100 > {limit} || cat {limit}");
        let run = project.run_sh(&[], &script);
        assert_eq!(run.stdout(), "0\n0\n", "{}", run.text());
        assert_ne!(project.bare_sh(&format!("cat {limit}")).stdout(), "0\n");
        // The control of the mechanism, in a namespace where no filter is.
        let outside = |number: u32| {
            let script = format!("echo {number} > {limit}; unshare -U true");
            project.bare("unshare").args(["-Ur", "sh", "-c", &script]).status().unwrap().success()
        };
        assert!(!outside(0));
        assert!(outside(10));
    });
}

#[test]
fn nested_ones_work_when_they_are_allowed_and_uncover_nothing() {
    each(|project| {
        project.write(".env", "SECRET=1");
        project.write(".atollignore", ".env\n");
        let attack = "
            id -u
            cat .env
            umount -l .env
            mount --bind . /tmp
            mount -t tmpfs none /tmp
            mount -t proc proc /proc
            unshare -m umount -R .
            cat .env";
        // Root's project has the one id 0, and nobody who lacks CAP_SETFCAP may map
        // that on (user_namespaces(7)); so there the ids stay unmapped.
        let (how, id) = match project.user {
            User::Root => ("-U", "65534\n"),
            User::Ordinary => ("-Ur", "0\n"),
        };
        for mode in ["live", "review"] {
            let mut run = project.atoll(&["run", "--workspace", mode, "--hide", ".env"]);
            run.args(["--allow", "nested-userns", "--", "unshare", how, "sh", "-c", attack]);
            let ran = Ran(run.output().unwrap());
            assert_eq!(ran.stdout(), id, "{}", ran.text());
        }
        assert_eq!(project.bare_sh("unshare -Ur sh -c 'id -u; cat .env'").stdout(), "0\nSECRET=1");
    });
}

/// What a program in a namespace of its own could do to a mask, if it could mount.
#[test]
fn mounts_are_changed_neither_in_nested_namespaces_nor_without() {
    const WAYS: [&str; 6] = [
        "mount --bind other .env",
        "mount -t tmpfs none dir",
        "umount -l under",
        "mount -o remount,bind,rw under",
        "cd dir && mount --bind . . && cd ../dir && /usr/sbin/pivot_root . .",
        "mount --rbind under dir",
    ];
    each(|project| {
        for name in [".env", "other", "dir/x", "under/x"] {
            project.write(name, "x");
        }
        project.write(".atollignore", ".env\n");
        let tried: String = WAYS
            .iter()
            .map(|way| format!("({way}) 2> /dev/null && echo 'done: {way}'\n"))
            .collect();
        project.write("ways", tried);
        for flags in [&[][..], &["--allow", "nested-userns"]] {
            for way in ["", "unshare -U --keep-caps "] {
                for mode in ["live", "review"] {
                    let flags = [&["--workspace", mode], flags].concat();
                    let run = project.run_sh(&flags, &format!("{way} sh ways; cat .env"));
                    assert_eq!(run.stdout(), "", "{flags:?} {way} {}", run.text());
                }
            }
        }
        // The control: in namespaces of one's own outside all of them are done.
        for way in WAYS {
            let script = format!("mount --bind under under; {way} && echo done");
            let mut bare = project.bare("unshare");
            let bare = Ran(bare.args(["-Urm", "sh", "-c", &script]).output().unwrap());
            assert_eq!(bare.stdout(), "done\n", "{way} {}", bare.text());
        }
    });
}

/// Each is another one than outside.
#[test]
fn every_namespace_is_the_sandboxs_own() {
    let kinds = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];
    let script = format!("cd /proc/self/ns && readlink {}", kinds.join(" "));
    each(|project| {
        let lines = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let outside = lines(project.bare_sh(&script).stdout());
        let run = project.run_sh(&[], &script);
        let inside = lines(run.stdout());
        assert_eq!((outside.len(), inside.len()), (kinds.len(), kinds.len()), "{}", run.text());
        for ((kind, outside), inside) in kinds.iter().zip(&outside).zip(&inside) {
            assert_ne!(outside, inside, "{kind}");
        }
    });
}

#[test]
fn a_command_has_no_capabilities_and_can_gain_none() {
    let script = "grep -E '^(Cap...|NoNewPrivs|Seccomp):' /proc/self/status";
    each(|project| {
        let run = project.run_sh(&[], script);
        let found = run.stdout();
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert!(found.contains(&format!("{set}:\t0000000000000000\n")), "{}", run.text());
        }
        assert!(found.contains("NoNewPrivs:\t1\n") && found.contains("Seccomp:\t2\n"), "{found}");
        // The control: without a sandbox there is a bounding set.
        assert!(!project.bare_sh(script).stdout().contains("CapBnd:\t0000000000000000\n"));
    });
}
