//! The parts of /proc that are the machine's.

use super::each;

/// Everything outside of the directories of processes; pipes and links excluded.
const WRITABLE: &str = "find -L /proc -path '/proc/[0-9]*' -prune -o -path '/proc/*self' -prune -o -type f -writable -print 2>/dev/null";

#[test]
fn nothing_of_the_machine_can_be_written() {
    each(|project| {
        let run = project.run_sh(&[], WRITABLE);
        // Two that are blanked and take what is written as /dev/null does, a way to
        // be woken that any user has, and one where only the mode promises more.
        let fine =
            ["/proc/keys", "/proc/key-users", "/proc/pressure/", "/proc/sys/kernel/ns_last_pid"];
        let listed = run.stdout();
        let mut found = listed.lines().filter(|line| !fine.iter().any(|it| line.starts_with(it)));
        assert_eq!(found.next(), None, "{}", run.text());
    });
}

/// The control: root outside finds a lot, the same names among them.
#[test]
fn outside_root_can_write_what_is_not_writable_inside() {
    each(|project| {
        if project.user == atoll_testkit::run::User::Root {
            let found = project.bare_sh(WRITABLE).stdout();
            for name in ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/shmmax"] {
                assert!(found.lines().any(|line| line == name), "{name}");
            }
        }
    });
}

#[test]
fn writes_fail_whatever_the_mode_says() {
    let targets = [
        "sysrq-trigger",
        "sys/kernel/core_pattern",
        "sys/kernel/hostname",
        "sys/kernel/ns_last_pid",
        "sys/kernel/shmmax",
        "sys/vm/drop_caches",
        "sys/net/ipv4/ip_forward",
        "sys/net/ipv4/ping_group_range",
        "sys/net/ipv4/ip_unprivileged_port_start",
        "sys/user/max_user_namespaces",
        "sys/fs/binfmt_misc/register",
        "irq/default_smp_affinity",
        "1/oom_score_adj",
    ];
    each(|project| {
        for mode in ["live", "review"] {
            let script: String =
                targets.map(|name| format!("(echo 1 > /proc/{name}) && echo {name}\n")).concat();
            let run = project.run_sh(&["--workspace", mode], &script);
            assert_eq!(run.stdout(), "", "{}", run.text());
        }
        // What is a process's own can be written.
        let own = "echo 500 > /proc/self/oom_score_adj && echo name > /proc/self/comm";
        assert_eq!(project.run_sh(&[], own).code(), Some(0));
    });
}

#[test]
fn the_kernels_memory_and_tables_cannot_be_read() {
    let files =
        ["kcore", "kmsg", "kpagecount", "kpageflags", "slabinfo", "vmallocinfo", "timer_list"];
    let script: String =
        files.map(|name| format!("head -c8 /proc/{name} >/dev/null && echo {name}\n")).concat();
    each(|project| {
        let run = project.run_sh(&[], &script);
        assert_eq!(run.stdout(), "", "{}", run.text());
        if project.user == atoll_testkit::run::User::Root {
            let bare = project.bare_sh("head -c8 /proc/kpagecount >/dev/null && echo read");
            assert_eq!(bare.stdout(), "read\n", "{}", bare.text());
        }
    });
}

/// Neither PID 1 nor the supervisor is a way to the host, nor tells of it.
#[test]
fn the_sandboxs_own_processes_cannot_be_looked_into() {
    let script = "for p in /proc/[0-9]*; do
        read -r name < $p/comm
        case $name in atoll*) echo seen;
            for file in environ maps mem pagemap; do head -c1 $p/$file && echo; done
            ls $p/root/ $p/cwd/ $p/fd/ $p/fdinfo/ $p/map_files/; readlink $p/exe $p/root $p/cwd;
        esac
    done 2>/dev/null";
    each(|project| {
        for mode in ["live", "review"] {
            let run = project.run_sh(&["--workspace", mode], script);
            let seen = run.stdout();
            assert!(!seen.is_empty() && seen.lines().all(|line| line == "seen"), "{}", run.text());
        }
    });
}
