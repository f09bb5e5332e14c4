//! Programs that make user namespaces, in a live workspace: what they open of procfs
//! is theirs, though the judge opens it.

use super::each;
use atoll_testkit::run::{Project, Ran, User};

const ALLOWED: [&str; 2] = ["--allow", "nested-userns"];

/// What scripts write to procfs from namespaces of their own, and what an ordinary
/// user must see then. Root's project has the one id 0, and nobody who lacks
/// `CAP_SETFCAP` may map that on (user_namespaces(7)).
const WRITES: &[(&str, &str)] = &[
    ("unshare -Ur id -u", "0"),
    ("unshare -Ur unshare -Ur sh -c 'id -u; cat /proc/self/uid_map'", "0 0 0 1"),
    ("unshare -Ur unshare -Urp --fork id -u", "0"),
    ("unshare -Ur unshare -Ur unshare -U --map-user=9 id -u", "9"),
    // What it must be like belongs to different ones.
    ("unshare -Unp --map-user=8 --map-group=8 --fork unshare -U --map-user=9 id -u", "9"),
    // Without the capability for it.
    (
        "f=/proc/sys/user/max_user_namespaces
            unshare -Ur setpriv --bounding-set=-all sh -c \"echo 7 > $f || echo no\"",
        "no",
    ),
    (
        "f=/proc/sys/net/ipv4/ip_unprivileged_port_start
            unshare -Urn sh -c \"unshare -Ur true; echo 100 > $f; unshare -Ur sh -c 'echo 200 > $f'; cat $f\"",
        "100",
    ),
    // By a descriptor, which is opened anew.
    (
        "unshare -Ur unshare -U --keep-caps bash -c 'echo deny > /proc/self/setgroups
            exec 3< /proc/self/gid_map; echo 5 0 1 > /proc/self/fd/3; id -g'",
        "5",
    ),
    // The child of a process that names its users.
    (
        "unshare -Ur bash -c 'unshare -U sh -c \"echo > said; read line < go; id -u\" &
            read line < said; echo 3 0 1 > /proc/$!/uid_map; echo > go; wait'",
        "3",
    ),
    // Files that are other ones in other namespaces.
    ("f=/proc/sys/user/max_user_namespaces; unshare -Ur sh -c \"echo 7 > $f; cat $f\"", "7"),
    (
        "f=/proc/sys/net/ipv4/ip_unprivileged_port_start
            unshare -Urn sh -c \"echo 100 > $f; cat $f\"",
        "100",
    ),
    ("f=/proc/sys/kernel/shmmni; unshare -Uri sh -c \"echo 77 > $f; cat $f\"", "77"),
    ("f=/proc/sys/kernel/hostname; unshare -Uru sh -c \"echo n > $f; uname -n\"", ""),
    // What asks nobody.
    (
        "unshare -Ur sh -c 'echo 900 > /proc/self/oom_score_adj; cat /proc/self/oom_score_adj'",
        "900",
    ),
    (
        "unshare -Ur bash -c 'cd /proc/self; echo a-name > ./comm; read name < comm; echo $name'",
        "a-name",
    ),
    // Refused by the kernel, with the same words.
    ("unshare -Ur sh -c 'echo no > /proc/self/status'", ""),
    ("unshare -Ur sh -c 'echo 0 7 1 > /proc/self/uid_map'", ""),
];

fn run(project: &Project, flags: &[&str], script: &str) -> Ran {
    project.run_sh(&[&ALLOWED[..], flags].concat(), script)
}

#[test]
fn files_of_procfs_are_opened_as_the_caller_would() {
    each(|project| {
        for (script, expected) in WRITES {
            let script = format!("cd $(mktemp -d); mkfifo go said; {script}");
            // There the kernel opens them.
            let free = run(project, &["--workspace", "review"], &script);
            for flags in [
                &["--workspace", "live"][..],
                &["--workspace", "live", "--strict-ignore", "--hide", "x"],
            ] {
                let live = run(project, flags, &script);
                assert_eq!(live.code(), free.code(), "{script}\n{}\n{}", live.text(), free.text());
                assert_eq!(live.stdout(), free.stdout(), "{script}\n{}", live.text());
                assert_eq!(live.stderr(), free.stderr(), "{script}");
            }
            let words: Vec<_> = free.stdout().split_whitespace().map(str::to_owned).collect();
            if project.user == User::Ordinary && !expected.is_empty() {
                assert_eq!(words.join(" "), *expected, "{script}\n{}", free.text());
            }
        }
    });
}

#[test]
fn names_and_the_supervisor_are_protected_from_there_too() {
    each(|project| {
        let attack = "
            echo x > .envrc
            echo 5 > /proc/1/oom_score_adj
            echo 0 0 1 > /proc/1/uid_map
            exec 3< /proc/1/comm
            echo x > /proc/self/fd/3
            cat /proc/1/comm
            echo x > free
            ls -A";
        let bare = project.bare_sh("unshare -U sh -c 'echo x > .envrc; ls -A'");
        assert_eq!(bare.stdout(), ".envrc\n");
        std::fs::remove_file(project.root().join(".envrc")).unwrap();
        let mut live = project.atoll(&["run", "--workspace", "live"]);
        live.args(ALLOWED).args(["--", "unshare", "-U", "sh", "-c", attack]);
        let live = Ran(live.output().unwrap());
        let refused = live
            .stderr()
            .lines()
            .filter(|line| line.contains("oom_score_adj and 2 more: rule supervisor"))
            .count();
        assert_eq!((live.stdout().as_str(), refused), ("atoll\nfree\n", 1), "{}", live.text());
        assert!(live.stderr().contains("/.envrc: rule project-tool"), "{}", live.text());
    });
}
