//! Limits hold inside, spare the host, and are named in the result.

use super::{each, each_way};
use atoll_testkit::run::{Project, Ran, User};
use atoll_testkit::skip::skip;

fn named(ran: &Ran) -> Vec<String> {
    let json = ran.json();
    let hits = json["limits_hit"].as_array().unwrap();
    hits.iter().map(|hit| hit["limit"].as_str().unwrap().to_owned()).collect()
}

/// Starts children until it may not; then the host must still be able to.
const BOMB: &str = r#"python3 -c '
import errno, os, time
n = 0
try:
    while n < 3000:
        if os.fork() == 0:
            time.sleep(1000)
        n += 1
except OSError as error:
    print(errno.errorcode[error.errno], n)
else:
    print("unlimited", n)'"#;

/// By the resource limit alone, and by a control group where one can be had.
#[test]
fn too_many_processes_fail_inside_only() {
    each(|project| {
        for flags in [&["--pids", "40"][..], &["--pids", "40", "--memory", "1GiB"]] {
            let run = project.run_sh(&[flags, &["--json"]].concat(), BOMB);
            let text = run.stdout();
            let (errno, count) =
                text.trim().split_once(' ').unwrap_or_else(|| panic!("{}", run.text()));
            assert_eq!(errno, "EAGAIN", "{}", run.text());
            let count: u32 = count.parse().unwrap();
            assert!((20..40).contains(&count), "{count} {flags:?} {:?}", project.user);
            assert_eq!(project.bare_sh("echo fine").stdout(), "fine\n");
            if flags.len() > 2 && has_group(&run) {
                assert_eq!(named(&run), ["pids"], "{}", run.text());
            }
        }
        // The control: a higher limit lets more through.
        let more = project.run_sh(&["--pids", "400"], &BOMB.replace("3000", "100"));
        assert_eq!(more.stdout(), "unlimited 100\n", "{}", more.text());
    });
}

/// Says whether the limits of a group were in force in this run.
fn has_group(ran: &Ran) -> bool {
    ran.json()["unenforced"].as_array().unwrap().is_empty()
}

#[test]
fn too_many_threads_fail_inside_only() {
    let script = r#"python3 -c '
import threading, time
n = 0
try:
    while n < 3000:
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start(); n += 1
except RuntimeError: print("refused", 10 < n < 40)
import os, sys; sys.stdout.flush(); os._exit(0)'"#;
    each(|project| {
        let run = project.run_sh(&["--pids", "40"], script);
        assert_eq!(run.stdout(), "refused True\n", "{}", run.text());
    });
}

#[test]
fn memory_over_the_limit_ends_a_process_and_is_named() {
    let script = r#"python3 -c 'x = bytearray(400 << 20); print(len(x) >> 20)'"#;
    each(|project| {
        let run = project.run_sh(&["--memory", "64MiB", "--json"], script);
        if has_group(&run) {
            assert_eq!(run.stdout(), "", "{}", run.text());
            assert_eq!(run.code(), Some(137));
            assert_eq!(named(&run), ["memory"]);
            let told = project.run_sh(&["--memory", "64MiB"], script).stderr();
            assert!(told.contains("out of memory") && told.contains("--memory"), "{told}");
            assert_eq!(project.run_sh(&["--memory", "800MiB"], script).stdout(), "400\n");
        } else {
            // Never in silence: what is not enforced is said.
            assert!(project.user != User::Root, "{}", run.text());
            skip("memory-limit", "run by an ordinary user, or where no cgroup tree can be written");
            let told = project.run_sh(&["--memory", "64MiB"], "true").stderr();
            assert!(told.contains("memory limit is not enforced"), "{told}");
        }
    });
}

/// A share of one processor: who would use all of it uses that much.
#[test]
fn a_limit_of_processors_holds() {
    let script = "end=$(($(date +%s) + 2)); while [ $(date +%s) -lt $end ]; do :; done";
    let used = |run: &Ran| {
        let told: serde_json::Value =
            serde_json::from_str(run.stderr().lines().last().unwrap()).unwrap();
        let moment = |name: &str| told["timeline"][name].as_f64().unwrap();
        told["usage"]["cpu_us"].as_f64().unwrap() / (moment("ended") - moment("running"))
    };
    each(|project| {
        let run = project.run_sh(&["--cpus", "0.2", "--json"], script);
        if run.stderr().contains("cpu limit is not enforced") {
            // Never in silence: what is not enforced is said.
            assert!(project.user != User::Root, "{}", run.text());
            skip("cpu-limit", "run by an ordinary user, or where no cgroup tree can be written");
            return;
        }
        assert!(used(&run) < 0.4, "{} of a processor: {}", used(&run), run.text());
        let control = project.run_sh(&["--json"], script);
        assert!(used(&control) > 1.5 * used(&run), "{} of one: {}", used(&control), control.text());
    });
}

#[test]
fn a_full_private_space_is_an_error_inside_and_named() {
    each(|project| {
        for place in ["/tmp", "/dev/shm", "\"$HOME\""] {
            let script = format!("head -c 64M /dev/zero > {place}/x || echo full");
            let run = project.run_sh(&["--disk", "8MiB", "--json"], &script);
            assert_eq!(run.stdout(), "full\n", "{place} {}", run.text());
            assert_eq!(named(&run), ["disk"]);
            let told = project.run_sh(&["--disk", "8MiB"], &script).stderr();
            assert!(told.contains("--disk"), "{told}");
            assert!(told.contains("No space left"), "{told}");
            let room = project.run_sh(&["--disk", "100MiB", "--json"], &script);
            assert_eq!(room.stdout(), "", "{}", room.text());
            assert!(named(&room).is_empty());
        }
    });
}

#[test]
fn files_without_end_are_an_error_inside_and_named() {
    let script = r#"python3 -c '
import errno, os
os.makedirs("/tmp/d")
for n in range(60000):
    try: os.close(os.open("/tmp/d/%d" % n, os.O_CREAT | os.O_WRONLY))
    except OSError as error: print(errno.errorcode[error.errno], 10000 < n < 20000); break'"#;
    each(|project| {
        // None, since the judge of a live workspace makes each file.
        let run = project.run_sh(&["--workspace", "none", "--disk", "16MiB", "--json"], script);
        assert_eq!(run.stdout(), "ENOSPC True\n", "{}", run.text());
        assert_eq!(named(&run), ["disk"]);
    });
}

#[test]
fn a_limit_of_time_ends_everything_and_is_named() {
    each(|project| {
        let run = project.run_sh(&["--timeout", "300ms", "--json"], "trap '' TERM INT; sleep 1000");
        assert_eq!(run.code(), Some(124), "{}", run.text());
        assert_eq!(named(&run), ["time"]);
    });
}

#[test]
fn defaults_let_real_builds_through() {
    let script =
        "ulimit -n 65536 && ulimit -n; ulimit -f; ulimit -v; ulimit -d; ulimit -t; ulimit -c
        ulimit -u";
    each(|project| {
        let bare: Vec<String> =
            project.bare_sh("ulimit -Hn").stdout().lines().map(str::to_owned).collect();
        if bare[0].parse::<u64>().is_ok_and(|most| most < 65_536) {
            skip("open-files", "the hard limit of open files is below 65536");
            return;
        }
        let mut command = project.atoll(&["run", "--", "bash", "-c", script]);
        let run = Ran(command.output().unwrap());
        let lines: Vec<String> = run.stdout().lines().map(str::to_owned).collect();
        assert_eq!(
            lines[..5],
            ["65536", "unlimited", "unlimited", "unlimited", "unlimited"],
            "{}",
            run.text()
        );
        let processes: u64 = lines[6].parse().unwrap_or(u64::MAX);
        assert!(processes >= 1_000, "{}", run.text());
    });
}

#[test]
fn a_limit_of_open_files_holds() {
    let script = r#"python3 -c '
import errno, os
n = 0
try:
    while n < 1000: os.open("/dev/null", os.O_RDONLY); n += 1
except OSError as error: print(errno.errorcode[error.errno], n < 64)'"#;
    each(|project| {
        let run = project.run_sh(&["--open-files", "64"], script);
        assert_eq!(run.stdout(), "EMFILE True\n", "{}", run.text());
        assert_eq!(project.run_sh(&[], script).stdout(), "");
        raise(project);
    });
}

/// As on a small machine, whose kernel allows fewer processes than the policy does.
#[test]
fn what_the_caller_may_not_have_is_no_reason_to_fail() {
    each(|project| {
        let program = project.program().display();
        for inner in ["ulimit -Hn", "ulimit -Hu"] {
            let script =
                format!("ulimit -u 900 && ulimit -n 800 && {program} run -- bash -c '{inner}'");
            let run = Ran(project.bare("bash").args(["-c", &script]).output().unwrap());
            let most = if inner.ends_with('n') { "800\n" } else { "900\n" };
            assert_eq!(run.stdout(), most, "{}", run.text());
        }
    });
}

/// The workload cannot take its limits back.
fn raise(project: &Project) {
    let run = project.run_sh(&["--open-files", "64"], "ulimit -n 65 || echo refused");
    assert_eq!(run.stdout(), "refused\n", "{}", run.text());
}

/// Makes as many watchers as it can, or 65, and says how many those were.
const WATCHERS: &str = "python3 -c '
import ctypes
libc = ctypes.CDLL(None)
made = 0
while made < 65 and libc.inotify_init() >= 0:
    made += 1
print(made)'";

#[test]
fn a_run_leaves_half_of_what_may_be_watched_to_others() {
    let number = |path: &str| -> u32 {
        let text = std::fs::read_to_string(path);
        text.unwrap_or_else(|error| panic!("{path}: {error}")).trim().parse().unwrap()
    };
    let instances = number("/proc/sys/fs/inotify/max_user_instances") / 2;
    let watches = number("/proc/sys/fs/inotify/max_user_watches") / 2;
    let limits = "cat /proc/sys/user/max_inotify_instances /proc/sys/user/max_inotify_watches
        echo 1000000 > /proc/sys/user/max_inotify_instances || true";
    each_way(|project, flags| {
        let run = project.run_sh(flags, &format!("{limits}; {WATCHERS}"));
        let expected = format!("{instances}\n{watches}\n{}\n", instances.min(65));
        assert_eq!(run.stdout(), expected, "{}", run.text());
        if instances < 65 {
            // The control: the same program alone makes more.
            let bare = project.bare_sh(WATCHERS);
            assert_eq!(bare.stdout(), "65\n", "{}", bare.text());
        }
    });
}
