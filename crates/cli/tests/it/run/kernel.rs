//! What of the kernel a command can reach: each refusal from inside, with the same
//! call outside.

use super::probe::{OK, inside, outside, place, refusals};
use super::{each, is_installed};
use atoll_testkit::pty::Pty;
use atoll_testkit::run::{Project, User};
use atoll_testkit::skip::skip;
use std::os::unix::fs::PermissionsExt;

const EPERM: &str = "1";
const ENOSYS: &str = "38";
const EAFNOSUPPORT: &str = "97";
const SIGSYS: &str = "signal 31";

/// With whom the same call has another end outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Control {
    Anybody,
    /// For others the kernel's own answer is the same.
    Root,
    /// The call cannot be made in a test.
    None,
}

/// Calls that only ask: outside they find their arguments wrong.
const REFUSED: &[(&str, &str, Control)] = &[
    ("mount bad bad bad 0 0", "kernel.mounts mount", Control::Anybody),
    ("umount2 bad 0", "kernel.mounts umount2", Control::Anybody),
    ("pivot_root bad bad", "kernel.mounts pivot_root", Control::Root),
    ("open_tree -1 bad 0", "kernel.mounts open_tree", Control::Anybody),
    ("move_mount -1 bad -1 bad 0", "kernel.mounts move_mount", Control::Root),
    ("fsopen bad 0", "kernel.mounts fsopen", Control::Root),
    ("fsconfig -1 99 0 0 0", "kernel.mounts fsconfig", Control::Anybody),
    ("fsmount -1 0 0", "kernel.mounts fsmount", Control::Root),
    ("fspick -1 bad 0", "kernel.mounts fspick", Control::Root),
    ("mount_setattr -1 bad 0 zeros 32", "kernel.mounts mount_setattr", Control::Root),
    ("chroot bad", "kernel.namespaces chroot", Control::Anybody),
    ("unshare 0", "kernel.namespaces unshare", Control::Anybody),
    ("setns -1 0", "kernel.namespaces setns", Control::Anybody),
    ("clone 0x10000000 0 0 0 0", "kernel.namespaces clone", Control::Anybody),
    ("clone 0x20000 0 0 0 0", "kernel.namespaces clone", Control::Root),
    ("clone 0x2000000 0 0 0 0", "kernel.namespaces clone", Control::Root),
    ("clone 0x4000000 0 0 0 0", "kernel.namespaces clone", Control::Root),
    ("clone 0x8000000 0 0 0 0", "kernel.namespaces clone", Control::Root),
    ("clone 0x20000000 0 0 0 0", "kernel.namespaces clone", Control::Root),
    ("clone 0x40000000 0 0 0 0", "kernel.namespaces clone", Control::Root),
    ("ptrace 16 0x7ffffff 0 0", "kernel.ptrace ptrace", Control::Anybody),
    ("process_vm_readv 0x7ffffff 0 0 0 0 0", "kernel.ptrace process_vm_readv", Control::Anybody),
    ("process_vm_writev 0x7ffffff 0 0 0 0 0", "kernel.ptrace process_vm_writev", Control::Anybody),
    ("pidfd_getfd -1 0 0", "kernel.ptrace pidfd_getfd", Control::Anybody),
    ("kcmp 0x7ffffff 0x7ffffff 0 0 0", "kernel.ptrace kcmp", Control::Anybody),
    ("process_madvise -1 bad 0 0 0", "kernel.ptrace process_madvise", Control::Anybody),
    ("bpf 0 bad 0", "kernel.programs bpf", Control::Root),
    ("perf_event_open bad 0 -1 -1 0", "kernel.programs perf_event_open", Control::Anybody),
    ("fanotify_init 0 0", "kernel.programs fanotify_init", Control::Root),
    ("add_key bad bad 0 0 0", "kernel.keyrings add_key", Control::Anybody),
    ("request_key bad bad 0 0", "kernel.keyrings request_key", Control::Anybody),
    ("keyctl -1 0 0 0 0", "kernel.keyrings keyctl", Control::Anybody),
    ("settimeofday bad 0", "kernel.machine settimeofday", Control::Anybody),
    ("clock_settime 0 bad", "kernel.machine clock_settime", Control::Anybody),
    ("sethostname bad -1", "kernel.machine sethostname", Control::Root),
    ("setdomainname bad -1", "kernel.machine setdomainname", Control::Root),
    ("reboot 0 0 0 0", "kernel.machine reboot", Control::Root),
    ("kexec_load 0 999 0 0", "kernel.machine kexec_load", Control::Root),
    ("init_module bad 0 bad", "kernel.machine init_module", Control::Root),
    ("finit_module -1 bad 0", "kernel.machine finit_module", Control::Root),
    ("delete_module bad 0", "kernel.machine delete_module", Control::Root),
    ("swapon bad 0", "kernel.machine swapon", Control::Root),
    ("swapoff bad", "kernel.machine swapoff", Control::Root),
    ("acct bad", "kernel.machine acct", Control::Root),
    ("quotactl -1 bad 0 0", "kernel.machine quotactl", Control::Anybody),
    ("quotactl_fd -1 0 0 0", "kernel.machine quotactl_fd", Control::Anybody),
    ("syslog 99 0 0", "kernel.machine syslog", Control::Root),
    // It would hang up the terminal that the tests run on.
    ("vhangup", "kernel.machine vhangup", Control::None),
    ("open_by_handle_at -1 bad 0", "kernel.file-handles open_by_handle_at", Control::Root),
];

/// Only there on some machines.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[(&str, &str, Control)] = &[
    ("iopl 99", "kernel.machine iopl", Control::Root),
    ("ioperm -1 1 1", "kernel.machine ioperm", Control::Root),
    ("sysfs 99 0 0", "kernel.machine sysfs", Control::Anybody),
    ("ustat -1 bad", "kernel.machine ustat", Control::Anybody),
    ("kexec_file_load -1 -1 0 0 99", "kernel.machine kexec_file_load", Control::Root),
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[(&str, &str, Control)] = &[];

/// The filter's table is the same in each mode, but another process answers.
const MODES: [&[&str]; 2] = [&["--workspace", "live"], &["--workspace", "review"]];

#[test]
fn calls_that_are_nobodys_business_inside_are_refused_and_told() {
    let table: Vec<_> = REFUSED.iter().chain(REFUSED_HERE).collect();
    let calls: Vec<&str> = table.iter().map(|(call, ..)| *call).collect();
    each(|project| {
        place(project);
        let controlled: Vec<&str> =
            table.iter().filter(|it| it.2 != Control::None).map(|it| it.0).collect();
        let bare = outside(project, &controlled);
        for flags in MODES {
            let (answers, ran) = inside(project, flags, &calls);
            let told = refusals(&ran);
            for ((call, refusal, control), answer) in table.iter().zip(answers) {
                assert_eq!(answer, EPERM, "{call} {flags:?} {:?}", project.user);
                assert!(told.iter().any(|it| it == refusal), "{refusal} is not in {told:?}");
                let holds = match control {
                    Control::Anybody => true,
                    Control::Root => project.user == User::Root,
                    Control::None => continue,
                };
                let at = controlled.iter().position(|it| it == call).unwrap();
                assert!(!holds || bare[at] != EPERM, "{call} fails so outside as well");
            }
        }
    });
}

/// Programs fall back without a word, so nothing is told.
#[test]
fn calls_that_programs_probe_for_are_as_on_another_kernel() {
    let table = [
        ("clone3 bad 88", ENOSYS),
        ("openat2 -1 bad bad 0", ENOSYS),
        ("io_uring_setup 1 zeros", ENOSYS),
        ("io_uring_enter -1 0 0 0 0", ENOSYS),
        ("io_uring_register -1 0 0 0", ENOSYS),
        ("userfaultfd 1", EPERM),
        ("personality 0x400000", EPERM),
    ];
    let calls = table.map(|(call, _)| call);
    each(|project| {
        place(project);
        let bare = outside(project, &calls);
        for flags in MODES {
            let (answers, ran) = inside(project, flags, &calls);
            for (index, (call, errno)) in table.into_iter().enumerate() {
                assert_eq!(answers[index], errno, "{call}");
                assert_ne!(bare[index], errno, "{call} fails so outside as well");
            }
            assert_eq!(refusals(&ran), [""; 0]);
        }
    });
}

/// The kernel takes these arguments as 32 bits wide, so a filter must too.
#[test]
fn high_halves_of_arguments_do_not_open_a_way() {
    let table = [
        ("clone 0x110000000 0 0 0 0", EPERM),
        ("personality 0x100400000", EPERM),
        ("socket 0x100000010 3 9", EAFNOSUPPORT),
        ("socket 16 0x100000003 0x100000009", EAFNOSUPPORT),
    ];
    let calls = table.map(|(call, _)| call);
    each(|project| {
        place(project);
        assert_eq!(outside(project, &calls), [OK; 4]);
        let (answers, _) = inside(project, &[], &calls);
        assert_eq!(answers, table.map(|(_, errno)| errno));
    });
}

/// x32 and what comes after the newest call that the table knows. This kernel
/// knows neither, so there is no other answer to compare with.
#[test]
fn numbers_that_the_table_does_not_know_are_no_calls() {
    each(|project| {
        place(project);
        let getpid_x32 = (0x4000_0000 + 39).to_string();
        let calls = [format!("nr:{getpid_x32}"), "nr:600".to_owned()];
        let (answers, _) = inside(project, &[], &[&calls[0], &calls[1]]);
        assert_eq!(answers, [ENOSYS, ENOSYS]);
    });
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_call_of_the_32_bit_table_ends_the_program_and_is_explained() {
    // getpid
    let call = "int80 20";
    each(|project| {
        place(project);
        if outside(project, &[call]) != [OK] {
            skip("calls-32-bit", "the kernel has no 32-bit calls");
            return;
        }
        let (answers, _) = inside(project, &[], &[call]);
        assert_eq!(answers, [SIGSYS]);
        // The child's end is the program's here, as it would be for a real one.
        let script = "./probe int80 20 | grep -q 31 && kill -31 $$";
        let run = project.run_sh(&[], script);
        assert_eq!(run.code(), Some(128 + 31), "{}", run.text());
        assert!(run.stderr().contains("32-bit programs"), "{}", run.text());
    });
}

/// TIOCSTI types into a terminal; TIOCLINUX pastes on a console.
#[test]
fn nothing_can_be_typed_into_the_terminal() {
    let calls = ["ioctl 0 0x5412 text:x", "ioctl 0 0x100005412 text:x", "ioctl 0 0x541c bad"];
    let arguments = calls.join(" , ");
    let answers = |project: &Project, program: &mut std::process::Command| {
        let mut pty = Pty::spawn(program.args(arguments.split(' '))).unwrap();
        assert!(pty.wait().unwrap().success(), "{:?}", project.user);
        let screen = String::from_utf8_lossy(pty.screen()).replace('\r', "");
        // What is typed is echoed.
        screen.lines().map(|line| line.trim_start_matches('x').to_owned()).collect::<Vec<_>>()
    };
    each(|project| {
        place(project);
        let bare = answers(project, &mut project.bare(project.root().join("probe")));
        if bare[..2] != [OK, OK] {
            skip("terminal-typing", "the kernel refuses TIOCSTI by itself");
        }
        assert_ne!(bare[2], EPERM);
        let inside = answers(project, &mut project.atoll(&["run", "--", "./probe"]));
        assert_eq!(inside[..3], [EPERM; 3]);
    });
}

#[test]
fn a_program_in_memory_runs_behind_the_same_walls() {
    let script = r#"python3 -c '
import os
fd = os.memfd_create("program")
os.write(fd, open("./probe", "rb").read())
os.execve(fd, ["probe", "unshare", "0", ",", "setns", "-1", "0"], os.environ)'"#;
    each(|project| {
        place(project);
        assert_eq!(project.bare_sh(script).stdout(), "ok\n9\n");
        let run = project.run_sh(&[], script);
        assert_eq!(run.stdout(), "1\n1\n", "{}", run.text());
    });
}

/// Memory that not even the kernel maps: as outside, whether this kernel has it or not.
#[test]
fn secret_memory_is_as_outside() {
    let script = r#"python3 -c '
import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.syscall(447, 0)
if fd < 0: print(os.strerror(ctypes.get_errno()))
else:
    os.ftruncate(fd, 4096)
    memory = mmap.mmap(fd, 4096, mmap.MAP_SHARED)
    memory[:5] = b"quiet"
    try: print(os.read(fd, 5))
    except OSError as error: print(memory[:5], error.strerror)
    try: os.execve(fd, ["program"], {})
    except OSError as error: print(error.strerror)'"#;
    each(|project| {
        let bare = project.bare_sh(script);
        assert_eq!(bare.code(), Some(0), "{}", bare.text());
        for mode in MODES {
            let run = project.run_sh(mode, script);
            assert_eq!(run.stdout(), bare.stdout(), "{}", run.text());
            assert!(!run.stderr().contains("refused"), "{}", run.text());
        }
    });
}

#[test]
fn keys_of_the_user_outside_are_neither_listed_nor_reachable() {
    // Into the user's own keyring (-4), which all processes of a uid share.
    let add = "./probe add_key text:user text:atoll-probe zeros 4 -4";
    let list = "grep -c atoll-probe /proc/keys";
    let remove = "id=$(grep atoll-probe /proc/keys | cut -d' ' -f1); ./probe keyctl 9 0x$id -4";
    each(|project| {
        place(project);
        assert_eq!(project.bare_sh(add).stdout(), "ok\n");
        let (bare, run) = (project.bare_sh(list), project.run_sh(&[], list));
        assert_eq!(project.bare_sh(remove).stdout(), "ok\n");
        assert_eq!(bare.stdout(), "1\n");
        assert_eq!(run.stdout(), "0\n", "{}", run.text());
        let users = "wc -c < /proc/key-users";
        assert_eq!(project.run_sh(&[], users).stdout(), "0\n");
        assert_ne!(project.bare_sh(users).stdout(), "0\n");
    });
}

#[test]
fn debuggers_work_when_they_are_allowed_and_else_are_told_how() {
    let debuggers = [
        (
            "strace",
            "strace -f -o trace sh -c 'exit 4'; echo $?; grep -c exit_group trace",
            "4\n1\n",
        ),
        (
            "gdb",
            "gdb -nx -batch -ex 'run >/dev/null' -ex 'print $_exitcode' --args false 2>&1 | grep -o '= 1'",
            "= 1\n",
        ),
    ];
    for (program, script, expected) in debuggers {
        if !is_installed(program, "debuggers") {
            continue;
        }
        each(|project| {
            for mode in MODES {
                let allowed = project.run_sh(&[mode, &["--allow", "ptrace"]].concat(), script);
                assert_eq!(allowed.stdout(), expected, "{program} {}", allowed.text());
            }
            let refused = project.run_sh(&[], script);
            assert_ne!(refused.stdout(), expected);
            assert!(refused.stderr().contains("--allow ptrace"), "{}", refused.text());
            assert_eq!(project.bare_sh(script).stdout(), expected);
        });
    }
}

/// The processes that hold the walls up are in the same pid namespace.
#[test]
fn a_debugger_that_is_allowed_cannot_take_the_sandboxs_own_processes() {
    let attach = r#"for p in /proc/[0-9]*; do
  read -r name < $p/comm
  case $name in atoll*) pid=${p#/proc/}; ./probe ptrace 16 $pid 0 0; wc -c < $p/environ;
    dd if=$p/mem bs=1 count=1 >/dev/null && echo read; esac
done 2>/dev/null"#;
    each(|project| {
        place(project);
        let own = r#"sleep 100 & until read -r name < /proc/$!/comm && [ "$name" = sleep ]; do :; done
./probe ptrace 16 $! 0 0; wc -c < /proc/$!/environ | grep -vc '^0'; kill $!"#;
        for mode in MODES {
            let flags = [mode, &["--allow", "ptrace"]].concat();
            let run = project.run_sh(&flags, attach);
            let answers = run.stdout();
            assert!(answers.lines().count() >= 1, "{}", run.text());
            assert!(answers.lines().all(|line| line == EPERM), "{}", run.text());
            let control = project.run_sh(&flags, own);
            assert_eq!(control.stdout(), "ok\n1\n", "{}", control.text());
        }
    });
}

#[test]
fn set_user_id_bits_give_nothing() {
    if !rustix::process::geteuid().is_root() {
        skip("set-user-id", "run by an ordinary user");
        return;
    }
    each(|project| {
        // Somebody else's program: root's, and for root the ordinary user's.
        let uid = project.user.uid().unwrap();
        let other = if uid == 0 { User::Ordinary } else { User::Root }.uid().unwrap();
        let id = project.write("id", std::fs::read("/usr/bin/id").unwrap());
        std::os::unix::fs::chown(&id, Some(other), Some(other)).unwrap();
        std::fs::set_permissions(&id, PermissionsExt::from_mode(0o6755)).unwrap();
        let script = "./id -u; ./id -g; grep -E 'Cap(Eff|Prm|Bnd)' /proc/self/status";
        let (bare, run) = (project.bare_sh(script), project.run_sh(&[], script));
        assert!(bare.stdout().starts_with(&format!("{other}\n{other}\n")), "{}", bare.text());
        let none = "0000000000000000";
        let expected = format!("{uid}\n{uid}\nCapPrm:\t{none}\nCapEff:\t{none}\nCapBnd:\t{none}\n");
        assert_eq!(run.stdout(), expected, "{}", run.text());
    });
}

#[test]
fn file_capabilities_give_nothing() {
    if !rustix::process::geteuid().is_root() {
        skip("set-user-id", "run by an ordinary user");
        return;
    }
    each(|project| {
        let grep = project.write("grep", std::fs::read("/usr/bin/grep").unwrap());
        std::fs::set_permissions(&grep, PermissionsExt::from_mode(0o755)).unwrap();
        // VFS_CAP_REVISION_2, effective; CAP_DAC_READ_SEARCH permitted (capabilities(7)).
        let mut value = [0_u8; 20];
        (value[0], value[3], value[4]) = (1, 2, 1 << 2);
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(&grep, "security.capability", &value, flags).unwrap();
        let script = "./grep -E '^Cap(Eff|Prm):' /proc/self/status";
        let run = project.run_sh(&[], script);
        let none = "0000000000000000";
        assert_eq!(run.stdout(), format!("CapPrm:\t{none}\nCapEff:\t{none}\n"), "{}", run.text());
        let bare = project.bare_sh(script).stdout();
        assert!(!bare.contains(&format!("CapEff:\t{none}")), "the control: {bare}");
    });
}

#[test]
fn the_state_of_runs_is_out_of_sight_and_cannot_be_planted() {
    each(|project| {
        let script = "cd; ls -d .local/state/atoll .cache/atoll; echo change > \"$OLDPWD/file\"
            mkdir -p .config/atoll .local/state/atoll .cache/atoll
            echo evil > .config/atoll/config.toml; echo evil > .local/state/atoll/evil";
        let run = project.run_sh(&["--workspace", "review"], script);
        assert_eq!(run.stdout(), "", "{}", run.text());
        let home = project.home();
        // The control: both are there, outside.
        assert!(home.join(".local/state/atoll").is_dir());
        assert!(home.join(".cache/atoll").is_dir());
        assert!(!home.join(".config").exists());
        assert!(!home.join(".local/state/atoll/evil").exists());
    });
}
