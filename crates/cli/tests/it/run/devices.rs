//! The devices inside.

use super::each;
use super::probe::{OK, inside, outside, place};
use atoll_testkit::run::User;

#[test]
fn there_are_few_devices_and_no_sysfs() {
    each(|project| {
        let run = project.run_sh(&[], "ls /dev; ls /sys 2>/dev/null; find /dev -type b");
        let expected =
            "fd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n";
        assert_eq!(run.stdout(), expected, "{}", run.text());
        let outside = project.bare_sh("ls -d /dev/mem /dev/kmsg /dev/loop-control /sys/kernel");
        assert!(!outside.stdout().is_empty(), "{}", outside.text());
    });
}

#[test]
fn the_devices_that_are_there_work() {
    let script = "head -c4 /dev/urandom | wc -c; head -c4 /dev/random | wc -c
        head -c4 /dev/zero | wc -c; echo x > /dev/null && wc -c < /dev/null
        echo x > /dev/full || echo full; (: < /dev/tty) || echo no terminal
        echo a | cat /dev/stdin; echo x > /dev/shm/x && cat /dev/fd/0 < /dev/shm/x
        python3 -c 'import os; m, s = os.openpty(); print(os.ttyname(s))'";
    each(|project| {
        let mut run = project.atoll(&["run", "--", "setsid", "-w", "sh", "-c", script]);
        let run = atoll_testkit::run::Ran(run.output().unwrap());
        let expected = "4\n4\n4\n0\nfull\nno terminal\na\nx\n/dev/pts/0\n";
        assert_eq!(run.stdout(), expected, "{}", run.text());
    });
}

/// They are opened anew by their names, which asks for a right on the pipe itself.
#[test]
fn standard_streams_can_be_opened_by_name() {
    let script = "cat /dev/stdin; echo out > /dev/stdout; echo err > /dev/stderr
        echo file > /proc/self/fd/1";
    each(|project| {
        let through_pipes = |mut command: std::process::Command| {
            // A pipe of the user's own, as from its shell.
            command.args(["-c", "echo in | \"$@\" 2>&1 | cat", "sh"]);
            command
        };
        for mode in ["live", "review"] {
            let mut command = through_pipes(project.bare("sh"));
            command.arg(project.program()).args(["run", "--workspace", mode, "--", "sh", "-c"]);
            let run = atoll_testkit::run::Ran(command.arg(script).output().unwrap());
            assert_eq!(run.stdout(), "in\nout\nerr\nfile\n", "{}", run.text());
        }
    });
}

#[test]
fn no_device_can_be_made_and_none_of_the_projects_opened() {
    // /dev/mem, by number, since the host's own may hide.
    let make = "mknodat -100 text:made 0x2180 0x101";
    each(|project| {
        place(project);
        for mode in ["live", "review"] {
            let (answers, _) = inside(project, &["--workspace", mode], &[make]);
            assert_eq!(answers, ["1"]);
        }
        if project.user != User::Root {
            return;
        }
        assert_eq!(outside(project, &[make]), [OK]);
        let null =
            project.bare_sh("mknod null c 1 3 && chmod 666 null && echo x > null && echo ok");
        assert_eq!(null.stdout(), "ok\n", "{}", null.text());
        let run = project.run_sh(&[], "cat made; cat null; echo x > null && echo ok");
        assert_eq!(run.stdout(), "", "{}", run.text());
    });
}

#[test]
fn the_directory_of_devices_and_the_root_cannot_be_changed() {
    let script = "for d in / /dev /dev/pts /etc /usr /proc /home /var; do
        test -d $d && (: > $d/made) && echo $d; done
        rm /dev/null && echo removed; mv /dev/null /dev/zero && echo moved; rmdir /tmp && echo gone
        chmod 777 /dev && echo mode; : > /dev/shm/made && echo shm";
    each(|project| {
        let run = project.run_sh(&[], script);
        assert_eq!(run.stdout(), "shm\n", "{}", run.text());
    });
}
