//! What a sandbox is like when it has been started, and why it may not start.

use super::{Host, each, text};
use atoll_protocol::exec::{self, Outcome};
use atoll_protocol::request::{Reply, Request};
use atoll_spawner::client::SpawnError;
use atoll_spawner::order::{Bind, Image};
use atoll_testkit::guest::command;
use atoll_testkit::process::wait_until;
use std::path::Path;

#[test]
fn commands_run_as_the_sandboxs_user_in_its_home_and_what_they_write_is_kept() {
    each(|host| {
        let order = host.order("one");
        let sandbox = host.spawn(&order);
        assert_eq!(sandbox.sh("id -u; id -un; pwd; hostname"), "1000\nuser\n/home/user\none\n");
        assert_eq!(sandbox.sh("echo words > file; mkdir -p a/b; ls"), "a\nfile\n");
        let kept = order.binds[0].source.as_path().join("file");
        assert_eq!(std::fs::read_to_string(kept).unwrap(), "words\n");
        // Nothing but the guest and the shell that asks.
        assert_eq!(sandbox.sh("set -- /proc/[0-9]*; echo $#").trim(), "2");
        assert_eq!(sandbox.sh("cat /proc/1/comm").trim(), "atoll-guest");
        assert_eq!(sandbox.sh("ulimit -n").trim(), "256");
    });
}

#[test]
fn a_terminal_works_inside() {
    each(|host| {
        let sandbox = host.spawn(&host.order("one"));
        let mut start = command(&["sh", "-c", "tty; stty size; exit 3"]);
        start.input = exec::Input::Terminal(exec::Size { rows: 33, columns: 99 });
        let ran = sandbox.socket.run(start);
        assert_eq!((ran.text(), ran.outcome()), ("/dev/pts/0\r\n33 99\r\n", Outcome::Exited(3)));
    });
}

#[test]
fn two_sandboxes_have_nothing_in_common() {
    each(|host| {
        let (one, other) = (host.spawn(&host.order("one")), host.spawn(&host.order("other")));
        one.sh("echo secret > file; echo secret > /tmp/file; sleep 600 >/dev/null 2>&1 &");
        wait_until("its sleep", || one.sh("pgrep -x sleep | wc -l").trim() == "1");
        assert_eq!(other.sh("hostname; ls -A . /tmp"), "other\n.:\n\n/tmp:\n");
        assert_eq!(other.sh("pgrep -x sleep"), "");
    });
}

#[test]
fn a_server_inside_is_reached_through_the_guest_and_from_nowhere_else() {
    each(|host| {
        let sandbox = host.spawn(&host.order("one"));
        let mut server = sandbox.socket.ask(&Request::Start(command(&[
            "python3", "-u", "-c",
            "import socket; s = socket.create_server(('127.0.0.1', 8080)); print('ready')\nwhile True: s.accept()[0].sendall(b'hello')",
        ])));
        server.started();
        server.expect("ready");
        assert_eq!(sandbox.sh("python3 -c \"import socket; print(socket.create_connection(('127.0.0.1', 8080)).recv(9).decode())\"").trim(), "hello");
        let Ok(Reply::Ports(ports)) = sandbox.socket.answer(&Request::Ports) else { panic!() };
        assert_eq!(ports.iter().map(|port| port.port).collect::<Vec<_>>(), [8080]);
        // The host's own loopback is another one.
        let outside = std::net::TcpStream::connect("127.0.0.1:8080");
        assert!(outside.is_err() || Host::is_port_in_use_outside(8080));
    });
}

impl Host {
    /// Somebody of the machine's listens there, who is none of ours.
    fn is_port_in_use_outside(port: u16) -> bool {
        std::net::TcpListener::bind(("127.0.0.1", port)).is_err()
    }
}

#[test]
fn a_directory_can_be_the_root_file_system() {
    each(|host| {
        let mut order = host.order("one");
        let root = host.dir.path().join("root");
        std::fs::create_dir_all(root.join("home/user")).unwrap();
        std::fs::create_dir_all(root.join("srv")).unwrap();
        std::fs::write(root.join("marker"), "mine").unwrap();
        for (link, to) in [("bin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")] {
            std::os::unix::fs::symlink(to, root.join(link)).unwrap();
        }
        host.user.give(&root);
        order.image = Image::Directory(super::octets(&root));
        // The programs are this machine's.
        order.binds.push(Bind { source: text("/usr"), at: text("/usr"), is_writable: false });
        let sandbox = host.spawn(&order);
        assert_eq!(sandbox.sh("read x < /marker; echo $x; echo /srv/*"), "mine\n/srv/*\n");
    });
}

#[test]
fn what_cannot_be_started_is_told_and_leaves_nothing() {
    each(|host| {
        let mut order = host.order("one");
        order.binds.push(Bind {
            source: text("/no/such/directory"),
            at: text("/data"),
            is_writable: false,
        });
        let refused = host.spawner.spawn(&order).unwrap_err();
        let SpawnError::Failed(failed) = &refused else { panic!("{refused:?}") };
        assert!(failed.text.contains("/no/such/directory"), "{failed:?}");
        assert!(!order.socket.as_path().exists());
        order.binds.pop();
        let sandbox = host.spawn(&order);
        // The place is taken now, and stays so.
        let refused = host.spawner.spawn(&order).unwrap_err();
        let SpawnError::Failed(failed) = &refused else { panic!("{refused:?}") };
        assert_eq!(failed.step, "bind");
        assert_eq!(sandbox.sh("echo ok"), "ok\n");
    });
}

#[test]
fn an_order_that_is_too_long_is_refused_before_it_is_given() {
    each(|host| {
        let mut order = host.order("one");
        order.environment.push((text("LONG"), text(&"x".repeat(200_000))));
        assert!(matches!(host.spawner.spawn(&order), Err(SpawnError::Ask(_))));
        order.environment.pop();
        assert_eq!(host.spawn(&order).sh("echo ok"), "ok\n");
    });
}

#[test]
fn many_are_started_at_once() {
    each(|host| {
        let orders: Vec<_> = (0..16).map(|number| host.order(&format!("s{number}"))).collect();
        let sandboxes: Vec<_> = std::thread::scope(|scope| {
            let starts: Vec<_> =
                orders.iter().map(|order| scope.spawn(|| host.spawn(order))).collect();
            starts.into_iter().map(|start| start.join().unwrap()).collect()
        });
        for (number, sandbox) in sandboxes.iter().enumerate() {
            assert_eq!(sandbox.sh("hostname"), format!("s{number}\n"));
        }
    });
}

#[test]
fn the_socket_is_the_servers_own() {
    each(|host| {
        use std::os::unix::fs::MetadataExt as _;
        let order = host.order("one");
        let _sandbox = host.spawn(&order);
        let socket = std::fs::metadata(order.socket.as_path()).unwrap();
        assert_eq!(socket.mode() & 0o777, 0o600);
        assert_eq!(
            Some(socket.uid()),
            host.user.uid().or(Some(rustix::process::getuid().as_raw()))
        );
        assert!(Path::new(&order.socket.to_string()).starts_with(host.dir.path()));
    });
}

#[test]
fn a_guest_has_more_descriptors_than_its_commands_and_goes_on_without() {
    each(|host| {
        let sandbox = host.spawn(&host.order("one"));
        let Ok(Reply::Guest(state)) = sandbox.socket.answer(&Request::Guest) else { panic!() };
        assert!(state.descriptors.limit > 256, "{state:?}");
        assert_eq!(sandbox.sh("ulimit -Sn; ulimit -Hn"), "256\n256\n");
    });
}
