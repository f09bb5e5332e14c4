//! A machine that has not enough of something.

use super::support::{command, log, socket, state};
use super::{Served, each};
use atoll_testkit::process::wait_until;
use atoll_testkit::run::{Project, Ran};
use atoll_testkit::skip;
use rustix::mount::MountFlags;
use serde_json::json;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// Changes a command so that it may have this many open files.
fn with_open_files<'a>(project: &Project, command: &'a mut Command, most: u32) -> &'a mut Command {
    let program = command.get_program().to_owned();
    let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    *command = project.bare("sh");
    command.args(["-c", &format!("ulimit -n {most} && exec \"$@\""), "sh"]);
    command.arg(program).args(arguments).stdout(Stdio::null());
    let log = std::fs::File::options().append(true).open(project.outside().join("log")).unwrap();
    command.stderr(log)
}

#[test]
fn with_256_descriptors_there_are_typed_answers_and_it_recovers() {
    each(|project| {
        let served = Served::start_by(project, &["--log-level", "warn"], |command| {
            with_open_files(project, command, 256)
        });
        // More than there are descriptors in all; each holds on to its own.
        let idle: Vec<UnixStream> =
            (0..300).filter_map(|_| UnixStream::connect(socket(project)).ok()).collect();
        assert!(idle.len() > 64, "only {} connections", idle.len());
        drop(idle);
        assert_eq!(served.ask("GET", "/healthz", None).status, 200);
        assert!(!log(project).contains("could not be accepted"), "{}", log(project));

        let mut made = 0;
        let refused = loop {
            let answer = served.create(&format!("n{made}"));
            if answer.status != 201 {
                break answer;
            }
            made += 1;
        };
        assert_eq!(made, 96);
        assert_eq!(refused.status, 429, "{refused:?}");
        assert_eq!(refused.body["error"]["code"], "capacity");
        assert_eq!(refused.body["error"]["details"]["limit"], "sandboxes_max");
        assert_eq!(served.ask("DELETE", "/v1/sandboxes/n0", None).status, 200);
        wait_until("room", || served.create("n0").status == 201);
    });
}

#[test]
fn more_sandboxes_than_descriptors_are_refused_at_the_start() {
    each(|project| {
        let refused = |flags: &[&str], files, what: &str| {
            let mut command = command(project, flags);
            let ran = with_open_files(project, &mut command, files).stderr(Stdio::piped()).output();
            let ran = Ran(ran.unwrap());
            assert_eq!(ran.code(), Some(125), "{}", ran.text());
            assert!(ran.stderr().contains(what), "{}", ran.text());
            assert!(ran.stderr().contains("hint: raise the limit"), "{}", ran.text());
        };
        refused(&["--sandboxes-max", "97"], 256, "enough for 96 sandboxes, and not for 97");
        refused(&[], 100, "fewer than the 128");
    });
}

/// A file system of its own for the state directory, which nobody else sees.
fn small(project: &Project) {
    let place = state(project);
    std::fs::create_dir(&place).unwrap();
    rustix::mount::mount("none", &place, "tmpfs", MountFlags::empty(), Some(c"size=16m,mode=0700"))
        .unwrap();
    project.user.give(&place);
}

fn fill(place: &Path) {
    let zeros = vec![0; 32 << 20];
    let error = std::fs::write(place.join("filler"), zeros).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}

/// Leaves as many bytes free.
fn fill_but(place: &Path, left_bytes: u64) {
    let found = rustix::fs::statvfs(place).unwrap();
    let free = found.f_bavail * found.f_frsize;
    let zeros = vec![0; usize::try_from(free - left_bytes).unwrap()];
    std::fs::write(place.join("filler"), zeros).unwrap();
}

#[test]
fn on_a_full_disk_there_are_typed_answers_and_names_stay_free() {
    if !rustix::process::geteuid().is_root() {
        return skip::skip("full-disk", "run by an ordinary user");
    }
    // Of this thread, and of whatever it starts.
    #[expect(deprecated, reason = "unsound for descriptors alone, which stay shared")]
    rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNS).unwrap();
    let flags =
        rustix::mount::MountPropagationFlags::PRIVATE | rustix::mount::MountPropagationFlags::REC;
    rustix::mount::mount_change("/", flags).unwrap();
    each(|project| {
        small(project);
        let mut served = Served::start(project, &[]);
        assert_eq!(served.create("before").status, 201);
        fill(&state(project));
        for _ in 0..3 {
            let answer = served.create("one");
            assert_eq!(answer.status, 429, "{answer:?}: {}", log(project));
            assert_eq!(answer.body["error"]["code"], "capacity");
            assert_eq!(answer.body["error"]["took_effect"], "no");
        }
        // Before it is full, so that those that are there can still write.
        std::fs::remove_file(state(project).join("filler")).unwrap();
        fill_but(&state(project), 400 << 10);
        let answer = served.create("one");
        assert_eq!(answer.status, 429, "{answer:?}: {}", log(project));
        assert_eq!(answer.body["error"]["details"]["limit"], "disk_bytes");
        let writes = json!({"shell": "head -c 100000 /dev/zero > x && echo written"});
        let path = "/v1/sandboxes/before/execs?wait_ms=20000";
        let written = served.ask("POST", path, Some(&writes));
        assert_eq!(written.body["stdout"]["head"]["text"], "written\n", "{written:?}");
        fill(&state(project));
        // What is there still works, and can be taken away.
        assert_eq!(served.state("before"), "running");
        std::fs::remove_file(state(project).join("filler")).unwrap();
        assert_eq!(served.create("one").status, 201, "{}", log(project));
        assert_eq!(served.end().code(), Some(0));
        fill(&state(project));
        let ran = Ran(command(project, &["--listen", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .output()
            .unwrap());
        assert_eq!(ran.code(), Some(125), "{}", ran.text());
        assert!(ran.stderr().contains("No space left"), "{}", ran.text());
        std::fs::remove_file(state(project).join("filler")).unwrap();
        drop(served);
        rustix::mount::unmount(state(project), rustix::mount::UnmountFlags::DETACH).unwrap();
    });
}
