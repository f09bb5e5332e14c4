//! Descriptors that the caller or we ourselves have open are not the command's.

use super::{each, wait_until};
use atoll_testkit::run::{Project, Ran};
use atoll_testkit::skip::skip;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

/// Opens what a careless caller may have open, none of it close-on-exec, and
/// becomes the program in its arguments.
const CALLER: &str = r"
import os, resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096) if hard > 0 else 4096, hard))
secret, directory = sys.argv[1], os.path.dirname(sys.argv[1])
for number in 9, 2048:
    os.dup2(os.open(secret, os.O_RDWR), number)
os.dup2(os.open(directory, os.O_RDONLY), 10)
os.dup2(os.open('/', os.O_PATH), 11)
near, far = socket.socketpair()
far.send(b'sesame')
os.dup2(near.fileno(), 12)
os.dup2(far.fileno(), 13)
os.dup2(os.memfd_create('sesame'), 14)
os.execvp(sys.argv[2], sys.argv[2:])
";

/// Says which descriptors it has, and reads what they lead to.
const LOOK: &str = "
import os
for number in sorted(map(int, os.listdir('/proc/self/fd'))):
    try: print(number, os.readlink(f'/proc/self/fd/{number}'))
    except OSError: pass
for path in '/proc/self/fd/9', '/dev/fd/2048', '/proc/self/fd/10/secret', '/proc/self/fd/11/etc/hostname', \
        '/proc/1/fd/9', '/proc/1/fd/10/secret':
    try: print('read', open(path).read().strip() and path)
    except OSError: pass
for number in 9, 10, 11, 12, 13, 14, 2048:
    try: os.fstat(number); print('have', number)
    except OSError: pass
try: print('socket', os.read(12, 6))
except OSError: pass
";

fn secret(project: &Project) -> String {
    let path = project.outside().join("secret");
    std::fs::write(&path, "sesame\n").unwrap();
    project.user.give(&path);
    path.display().to_string()
}

fn careless(project: &Project, program: &[&str]) -> Ran {
    let mut caller = project.bare("python3");
    caller.args(["-c", CALLER, &secret(project)]).args(program);
    Ran(caller.output().unwrap())
}

#[test]
fn what_the_caller_has_open_is_closed() {
    each(|project| {
        let control = careless(project, &["python3", "-c", LOOK]).stdout();
        for part in [
            "read /proc/self/fd/9",
            "have 2048",
            "have 10",
            "socket b'sesame'",
            "read /proc/self/fd/10/secret",
        ] {
            assert!(control.contains(part), "{part}: {control}");
        }
        let atoll = project.atoll(&[]).get_program().to_str().unwrap().to_owned();
        for flags in
            [&["--workspace", "live"], &["--workspace", "review"], &["--workspace", "none"]]
        {
            let program = [&[&*atoll, "run"], &flags[..], &["--", "python3", "-c", LOOK]].concat();
            let run = careless(project, &program);
            let text = run.stdout();
            let numbers: Vec<&str> =
                text.lines().map(|line| line.split(' ').next().unwrap()).collect();
            assert_eq!(numbers, ["0", "1", "2"], "{flags:?}: {}", run.text());
        }
    });
}

#[test]
fn a_caller_with_many_descriptors_still_gets_its_exit_status() {
    each(|project| {
        let atoll = project.atoll(&[]).get_program().to_str().unwrap().to_owned();
        let missing = careless(project, &[&atoll, "run", "--", "no-such-program"]);
        assert_eq!(missing.code(), Some(127), "{}", missing.text());
        assert!(missing.stderr().contains("no such program"), "{}", missing.text());
        let exits = careless(project, &[&atoll, "run", "--", "sh", "-c", "echo out; exit 5"]);
        assert_eq!((exits.code(), exits.stdout().as_str()), (Some(5), "out\n"), "{}", exits.text());
    });
}

/// The descriptors of a process, seen from the host.
fn open_descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// The processes of a run on the host: the launcher and all below it.
fn family(pid: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    let below = children.split_whitespace().flat_map(|child| family(child.parse().unwrap()));
    std::iter::once(pid).chain(below.collect::<Vec<_>>()).collect()
}

/// Makes, renames and removes files, is refused, and waits at two moments.
const WORK: &str = "
import os, sys
def work(rounds):
    for number in range(rounds):
        os.close(os.open('f', os.O_CREAT | os.O_WRONLY))
        os.rename('f', 'g')
        os.unlink('g')
        try: os.open('.git/hooks/pre-commit', os.O_CREAT | os.O_WRONLY)
        except PermissionError: pass
        os.close(os.open('.git/HEAD', os.O_RDONLY))
work(50); print('before', flush=True); sys.stdin.readline()
work(2500); print('after', flush=True); sys.stdin.readline()
";

#[test]
fn ten_thousand_judged_calls_leave_no_descriptor_open() {
    if !rustix::process::geteuid().is_root() {
        return skip("descriptors-of-pid-1", "run by an ordinary user");
    }
    each(|project| {
        project.write(".env", "");
        project.write(".aiignore", ".env\n");
        assert_eq!(project.bare_sh("git init -q .").code(), Some(0));
        for flags in [&[] as &[&str], &["--strict-ignore"]] {
            let mut run = project.atoll(&["run"]);
            run.args(flags).args(["--", "python3", "-c", WORK]);
            run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = run.spawn().unwrap();
            let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            let mut stdout = BufReader::new(stdout);
            let mut counts = Vec::new();
            for moment in ["before\n", "after\n"] {
                let mut line = String::new();
                stdout.read_line(&mut line).unwrap();
                assert_eq!(line, moment);
                let family = family(child.id());
                assert!(family.len() >= 3, "{family:?}");
                let count = || family.iter().map(|pid| open_descriptors(*pid)).collect::<Vec<_>>();
                // What the last call needed is closed after its answer, and some are
                // still open at the first moment perhaps.
                if let Some(before) = counts.first() {
                    let grew = |now: &[usize]| now.iter().zip(before).any(|(now, then)| now > then);
                    wait_until(&format!("{before:?} descriptors again"), || !grew(&count()));
                }
                counts.push(count());
                stdin.write_all(b"go\n").unwrap();
            }
            assert_eq!(counts[0].len(), counts[1].len(), "{flags:?} {counts:?}");
            let mut errors = String::new();
            child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(0), "{errors}");
            assert!(errors.contains("rule git-hooks"), "{errors}");
        }
    });
}
