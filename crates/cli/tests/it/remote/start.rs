//! No server, and one that is started on request.

use super::each;
use atoll_testkit::process::wait_until;
use atoll_testkit::run::{Project, Ran, User};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

#[test]
fn without_a_server_it_is_said_how_to_start_one() {
    each(|project| {
        let nowhere = project.outside().join("nowhere.sock");
        let mut command = project.atoll(&["list"]);
        command.env("ATOLL_HOST", format!("unix://{}", nowhere.display()));
        let ran = Ran(command.output().unwrap());
        assert_eq!(ran.code(), Some(125), "{}", ran.text());
        assert!(ran.stderr().starts_with("error: no server listens on unix://"), "{}", ran.text());
        assert!(ran.stderr().contains("hint: start one with `atoll serve`"), "{}", ran.text());
    });
}

/// The process that keeps the state directory of the project's user.
fn server_of(project: &Project) -> Option<Pid> {
    let socket = project.home().join(".local/state/atoll/server/atoll.sock");
    let stream = std::os::unix::net::UnixStream::connect(socket).ok()?;
    rustix::net::sockopt::socket_peercred(&stream).ok().map(|peer| peer.pid)
}

/// Ends the server that a test had started.
struct Ending<'a>(&'a Project);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let Some(pid) = server_of(self.0) else { return };
        let listed = Ran(self.0.atoll(&["list", "-q"]).output().unwrap()).stdout();
        for id in listed.lines() {
            self.0.atoll(&["delete", id]).output().unwrap();
        }
        let server = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        kill_process(pid, Signal::TERM).ok();
        // Whoever its parent is now may never ask for it.
        wait_until("the server to end", || {
            poll(&mut [PollFd::new(&server, PollFlags::IN)], Some(&Timespec::default())) == Ok(1)
        });
    }
}

#[test]
fn a_private_one_is_started_once_and_stays() {
    each(|project| {
        if project.user == User::Root {
            // Root's places are the machine's.
            return;
        }
        let _ending = Ending(project);
        // Several at once start one.
        let callers: Vec<_> = ["a", "b", "c"]
            .map(|name| {
                let mut command = project.atoll(&["create", name, "--start-server"]);
                command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
                command.spawn().unwrap()
            })
            .into();
        for caller in callers {
            let ran = Ran(caller.wait_with_output().unwrap());
            assert_eq!(ran.code(), Some(0), "{}", ran.text());
        }
        let pid = server_of(project).unwrap();
        // It is nobody's job: it leads a session of its own.
        assert_eq!(rustix::process::getsid(Some(pid)), Ok(pid));
        let mut again = project.atoll(&["list", "-q"]);
        let again = Ran(again.env("ATOLL_START_SERVER", "1").output().unwrap());
        assert_eq!(again.stdout().lines().count(), 3, "{}", again.text());
        assert_eq!(server_of(project), Some(pid));
    });
}

#[test]
fn one_that_cannot_start_says_why() {
    each(|project| {
        if project.user == User::Root {
            return;
        }
        let state = project.home().join(".local/state/atoll/server");
        std::fs::create_dir_all(&state).unwrap();
        std::fs::write(state.join("keys.json"), "no keys").unwrap();
        project.user.give(&project.home());
        let ran = Ran(project.atoll(&["list", "--start-server"]).output().unwrap());
        assert_eq!(ran.code(), Some(125), "{}", ran.text());
        assert!(ran.stderr().contains("keys"), "{}", ran.text());
        assert!(ran.stderr().contains("its log is"), "{}", ran.text());
    });
}
