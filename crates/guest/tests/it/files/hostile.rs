//! What somebody in the sandbox plants for whoever writes and reads from outside.

use super::client::SECRET;
use super::{Sandbox, each};
use atoll_protocol::problem::Code;
use rustix::fs::{CWD, FileType, Mode};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

/// Links to the outside, by their name in the sandbox, and whether this process
/// itself gets out by them: the control.
fn plant(sandbox: &Sandbox) -> Vec<&'static str> {
    let outside = sandbox.outside();
    let up = PathBuf::from("../".repeat(40)).join(outside.strip_prefix("/").unwrap());
    sandbox.link("absolute", &outside);
    sandbox.link("relative", "../outside");
    sandbox.link("high", up);
    sandbox.link("chain", "absolute");
    for name in ["absolute", "relative", "high", "chain"] {
        let control = std::fs::read_to_string(sandbox.path(name).join("secret")).unwrap();
        assert_eq!(control, SECRET, "without a sandbox {name} leads out");
    }
    vec!["absolute", "relative", "high", "chain"]
}

#[test]
fn links_do_not_lead_out() {
    each("files::hostile::links_do_not_lead_out", || {
        let sandbox = Sandbox::new();
        for name in plant(&sandbox) {
            let [directory, secret, new] =
                ["", "/secret", "/new"].map(|below| format!("/{name}{below}"));
            sandbox.read(&secret).refused(Code::NotFound);
            sandbox.look(&secret, true).refused(Code::NotFound);
            sandbox.look(&directory, true).refused(Code::NotFound);
            sandbox.list(&directory, 1, 10).refused(Code::NotFound);
            sandbox.write(&new, b"x").refused(Code::NotFound);
            sandbox.make(&new, false).refused(Code::NotFound);
            sandbox.set_mode(&secret, 0o777).refused(Code::NotFound);
            sandbox.remove(&secret, false).refused(Code::NotFound);
            sandbox.rename(&secret, "/stolen", true).refused(Code::NotFound);
            sandbox.put("mine", "x");
            sandbox.rename("/mine", &secret, true).refused(Code::NotFound);
        }
        sandbox.assert_outside_is_as_it_was();

        // Where the same paths are beneath the root, the links lead there.
        let inside = sandbox.root().join(sandbox.outside().strip_prefix("/").unwrap());
        std::fs::create_dir_all(&inside).unwrap();
        sandbox.write("/absolute/new", b"inside").stat();
        sandbox.write("/high/newer", b"inside").stat();
        assert_eq!(std::fs::read_to_string(inside.join("new")).unwrap(), "inside");
        assert_eq!(std::fs::read_to_string(inside.join("newer")).unwrap(), "inside");
        sandbox.assert_outside_is_as_it_was();
    });
}

#[test]
fn a_last_link_that_is_written_does_not_lead_out() {
    each("files::hostile::a_last_link_that_is_written_does_not_lead_out", || {
        let sandbox = Sandbox::new();
        sandbox.link("absolute", sandbox.outside().join("secret"));
        sandbox.link("relative", "../outside/secret");
        sandbox.write("/absolute", b"x").refused(Code::NotFound);
        sandbox.write("/relative", b"x").refused(Code::NotFound);
        // `..` of the root is the root.
        std::fs::create_dir(sandbox.path("outside")).unwrap();
        sandbox.write("/relative", b"x").stat();
        assert_eq!(sandbox.read("/outside/secret").text(), "x");
        sandbox.assert_outside_is_as_it_was();
    });
}

/// The machine's root as a sandbox's, which has a `/proc`.
fn with_proc() -> (Sandbox, impl Fn(&str) -> Option<Code>) {
    let sandbox = Sandbox::new();
    let read = |path: &str| {
        let (host, worker) = std::os::unix::net::UnixStream::pair().unwrap();
        let root = atoll_guest::files::Root::of_process().unwrap();
        let mut channel = atoll_guest::channel::Channel::new(
            worker.into(),
            atoll_protocol::frame::Decoder::default(),
        );
        let path = super::client::octets(path);
        let read = atoll_protocol::files::Read { path, offset: 0, length: Some(1) };
        let request = atoll_protocol::request::Request::Read(read);
        let outcome = atoll_guest::files::serve(request, &mut channel, &root);
        drop(host);
        match outcome {
            atoll_guest::files::Outcome::Done => None,
            atoll_guest::files::Outcome::Refused(problem) => Some(problem.code),
            lost @ atoll_guest::files::Outcome::Lost(_) => panic!("{lost:?}"),
        }
    };
    (sandbox, read)
}

#[test]
fn links_of_proc_lead_nowhere() {
    each("files::hostile::links_of_proc_lead_nowhere", || {
        let (sandbox, read) = with_proc();
        let secret = sandbox.outside().join("secret");
        let held = std::fs::File::open(&secret).unwrap();
        let directory = std::fs::File::open(sandbox.outside()).unwrap();
        let pid = std::process::id();
        let paths = [
            format!("/proc/self/root{}", secret.display()),
            format!("/proc/{pid}/root{}", secret.display()),
            "/proc/self/cwd/.".to_owned(),
            format!("/proc/{pid}/fd/{}", held.as_raw_fd()),
            format!("/proc/thread-self/fd/{}/secret", directory.as_raw_fd()),
            "/proc/self/exe".to_owned(),
        ];
        for (index, path) in paths.iter().enumerate() {
            assert!(std::fs::metadata(path).is_ok(), "the control: {path}");
            assert_eq!(read(path), Some(Code::Denied), "{path}");
            let link = sandbox.path(&format!("link{index}"));
            std::os::unix::fs::symlink(path, &link).unwrap();
            assert_eq!(read(link.to_str().unwrap()), Some(Code::Denied), "a link to {path}");
        }
        assert_eq!(read(secret.to_str().unwrap()), None, "the control");
    });
}

#[test]
fn files_of_processes_are_not_shown() {
    let (sandbox, read) = with_proc();
    let pid = std::process::id();
    for path in ["/proc/self/environ".into(), "/proc/self/mem".into(), format!("/proc/{pid}/maps")]
    {
        assert!(std::fs::File::open(&path).is_ok(), "the control: {path}");
        assert_eq!(read(&path), Some(Code::Denied), "{path}");
        let link = sandbox.path("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(read(link.to_str().unwrap()), Some(Code::Denied), "a link to {path}");
        std::fs::remove_file(link).unwrap();
    }
    assert_eq!(read("/proc/meminfo"), None);
    assert_eq!(read("/proc/sys/kernel/ostype"), None);
}

#[test]
fn pipes_sockets_and_devices_are_neither_opened_nor_waited_for() {
    each("files::hostile::pipes_sockets_and_devices_are_neither_opened_nor_waited_for", || {
        let sandbox = Sandbox::new();
        rustix::fs::mknodat(CWD, sandbox.path("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let listener = std::os::unix::net::UnixListener::bind(sandbox.path("socket")).unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut names = vec!["pipe", "socket"];
        if rustix::process::geteuid().is_root() {
            let device = rustix::fs::makedev(1, 5);
            let kind = FileType::CharacterDevice;
            rustix::fs::mknodat(CWD, sandbox.path("zero"), kind, Mode::RWXU, device).unwrap();
            names.push("zero");
        }
        for name in names {
            sandbox.link(&format!("to-{name}"), name);
            for path in [format!("/{name}"), format!("/to-{name}")] {
                sandbox.read(&path).refused(Code::Conflict);
                sandbox.write(&path, b"x").refused(Code::Conflict);
                let append = atoll_protocol::files::Write {
                    existing: atoll_protocol::files::Existing::Append,
                    ..super::client::writing(&path)
                };
                let append = atoll_protocol::request::Request::Write(append);
                sandbox.ask_with(append, Some(b"x")).refused(Code::Conflict);
                sandbox.look(&path, true).stat();
            }
            sandbox.rename(&format!("/{name}"), &format!("/moved-{name}"), false).stat();
            sandbox.remove(&format!("/moved-{name}"), false).done();
        }
        assert!(listener.accept().is_err(), "nobody connected");
    });
}
