//! Where a server keeps things, and where it listens.

use super::support::{command, log, socket, state, try_ask};
use super::{Served, each};
use atoll_testkit::process::wait_until;
use atoll_testkit::run::{Ran, User};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::process::Stdio;

#[test]
fn everything_is_for_its_user_alone() {
    each(|project| {
        let served = Served::start(project, &[]);
        assert_eq!(served.create("one").status, 201);
        for (path, mode) in [
            (socket(project), 0o600),
            (state(project), 0o700),
            (state(project).join("sandboxes"), 0o700),
            (state(project).join("records.sqlite"), 0o600),
        ] {
            let metadata = path.symlink_metadata().unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, mode, "{}", path.display());
            assert_eq!(Some(metadata.uid()), project.user.uid().or(Some(metadata.uid())));
        }
    });
}

#[test]
fn an_ordinary_user_need_not_name_any_place() {
    each(|project| {
        if project.user == User::Root {
            // Root's places are the machine's.
            return;
        }
        for (runtime, expected) in [
            (None, project.home().join(".local/state/atoll/server/atoll.sock")),
            (Some(project.home().join("run")), project.home().join("run/atoll/atoll.sock")),
        ] {
            let mut command = project.atoll(&["serve"]);
            if let Some(runtime) = &runtime {
                command.env("XDG_RUNTIME_DIR", runtime);
            }
            let mut child = command.stderr(Stdio::null()).spawn().unwrap();
            wait_until("the server", || try_ask(&expected, "GET", "/healthz", None).is_ok());
            let parent = expected.parent().unwrap().metadata().unwrap();
            assert_eq!(parent.permissions().mode() & 0o777, 0o700);
            kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
            assert!(child.wait().unwrap().success());
            assert!(!expected.exists(), "it takes its socket away");
        }
    });
}

#[test]
fn a_second_server_is_refused_and_the_first_lives_on() {
    each(|project| {
        let served = Served::start(project, &[]);
        let mut second = project.atoll(&["serve", "--state"]);
        second.arg(project.outside().join("other")).arg("--socket").arg(socket(project));
        let second = Ran(second.output().unwrap());
        assert_eq!(second.code(), Some(125), "{}", second.text());
        assert!(second.stderr().contains("a server listens on"), "{}", second.text());
        assert!(second.stderr().contains("hint: "), "{}", second.text());
        assert_eq!(served.ask("GET", "/healthz", None).status, 200);
    });
}

#[test]
fn what_a_dead_server_left_at_the_socket_is_replaced() {
    each(|project| {
        let mut served = Served::start(project, &[]);
        served.kill();
        assert!(socket(project).exists(), "the control: it could not take its socket away");
        served.again();
        assert_eq!(served.end().code(), Some(0));
        assert!(!socket(project).exists());
    });
}

#[test]
fn what_is_in_the_way_stays_and_is_named() {
    each(|project| {
        let refused = |what: &str| {
            let ran = Ran(command(project, &[]).stderr(Stdio::piped()).output().unwrap());
            assert_eq!(ran.code(), Some(125), "{what}: {}", ran.text());
            assert!(ran.stderr().contains(what), "{what}: {}", ran.text());
        };
        std::fs::write(socket(project), "mine").unwrap();
        refused("is no socket");
        assert_eq!(std::fs::read_to_string(socket(project)).unwrap(), "mine");
        std::fs::remove_file(socket(project)).unwrap();

        std::fs::create_dir_all(state(project)).unwrap();
        project.user.give(&state(project));
        std::fs::set_permissions(state(project), PermissionsExt::from_mode(0o777)).unwrap();
        refused("others may write there");
        std::fs::set_permissions(state(project), PermissionsExt::from_mode(0o700)).unwrap();

        std::fs::write(state(project).join("records.sqlite"), "no database, whatever it is\n")
            .unwrap();
        project.user.give(&state(project));
        refused("state directory");
        std::fs::remove_file(state(project).join("records.sqlite")).unwrap();
        drop(Served::start(project, &[]));
    });
}

#[test]
fn a_state_directory_has_one_server() {
    each(|project| {
        let _served = Served::start(project, &[]);
        let mut second = project.atoll(&["serve", "--state"]);
        second.arg(state(project)).arg("--socket").arg(project.outside().join("second.sock"));
        let ran = Ran(second.output().unwrap());
        assert_eq!(ran.code(), Some(125), "{}", ran.text());
        assert!(ran.stderr().contains("another server keeps its sandboxes"), "{}", ran.text());
        assert!(!project.outside().join("second.sock").exists(), "it was not taken");
    });
}

#[test]
fn bad_flags_are_told() {
    each(|project| {
        for (flags, code, what) in [
            (&["--listen", "nonsense"][..], 2, "--listen"),
            (&["--log-level", "loud"], 2, "--log-level"),
            (&["--sandboxes-max", "0"], 2, "--sandboxes-max"),
            (&["--print-key"], 2, "--listen"),
            (&["--listen", "192.0.2.1:1"], 125, "192.0.2.1:1"),
        ] {
            let ran = Ran(command(project, flags).stderr(Stdio::piped()).output().unwrap());
            assert_eq!(ran.code(), Some(code), "{flags:?}: {}", ran.text());
            assert!(ran.stderr().contains(what), "{flags:?}: {}", ran.text());
        }
        let long = format!("/{}", "d".repeat(100));
        let ran = Ran(project.atoll(&["serve", "--state", &long]).output().unwrap());
        assert_eq!(ran.code(), Some(125), "{}", ran.text());
        assert!(ran.stderr().contains("choose a shorter path"), "{}", ran.text());
    });
}

#[test]
fn the_service_manager_is_told() {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    each(|project| {
        let path = project.outside().join("notify");
        let name = format!("atoll-test-notify-{}-{:?}", std::process::id(), project.user);
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        for (socket, variable) in [
            (UnixDatagram::bind(&path).unwrap(), path.display().to_string()),
            (UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}")),
        ] {
            project.user.give(&project.outside());
            let heard = || {
                let mut text = [0; 64];
                let length = socket.recv(&mut text).unwrap();
                String::from_utf8_lossy(&text[..length]).into_owned()
            };
            let mut served =
                Served::start_by(project, &[], |command| command.env("NOTIFY_SOCKET", variable));
            assert_eq!(heard(), "READY=1");
            assert_eq!(served.end().code(), Some(0));
            assert_eq!(heard(), "STOPPING=1", "{}", log(project));
        }
    });
}

#[test]
fn the_control_of_a_stale_socket() {
    // A listener that is dropped leaves the file: what the tests above replace is real.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    assert!(try_ask(&path, "GET", "/healthz", None).is_err());
}
