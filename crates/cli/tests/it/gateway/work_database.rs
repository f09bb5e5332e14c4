//! A database outside, by its name.

use super::{allowing, each, run_sh, told};
use atoll_testkit::internet::Internet;
use atoll_testkit::skip;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Who has an account everywhere, and it insists on one.
const NOBODY: u32 = 65_534;

/// A server of PostgreSQL, to its end; it does not run as root.
struct Server {
    programs: PathBuf,
    data: TempDir,
    port: u16,
}

impl Server {
    /// One that serves, where Debian's programs are installed.
    fn start() -> Option<Self> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
        let programs = versions.flatten().map(|version| version.path().join("bin"));
        let programs = programs.filter(|programs| programs.join("initdb").exists()).max()?;
        let data = tempfile::tempdir().unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(data.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        // Free now; who takes it in between lets the test fail.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let server = Self { programs, data, port };
        server.call("initdb", &["-A", "trust", "-U", "me", "-N"]);
        let options = format!(
            "-p {port} -c listen_addresses=127.0.0.1 -c fsync=off -k {}",
            server.data.path().display()
        );
        server.call("pg_ctl", &["-l", "/dev/null", "-w", "-o", &options, "start"]);
        Some(server)
    }

    fn call(&self, program: &str, words: &[&str]) {
        let mut command = Command::new(self.programs.join(program));
        command.arg("-D").arg(self.data.path().join("data")).args(words);
        command.current_dir("/").env_clear().env("PATH", "/usr/bin:/bin").env("LANG", "C.UTF-8");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        assert!(command.status().unwrap().success(), "{program}");
    }

    fn client(&self) -> String {
        self.programs.join("psql").display().to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.call("pg_ctl", &["-m", "immediate", "-w", "stop"]);
        }
    }
}

#[test]
fn a_database_is_reached_by_a_rule_for_its_port() {
    let Some(server) = Server::start() else {
        return skip::skip("work-postgresql", "postgresql is not installed");
    };
    let (client, port) = (server.client(), server.port);
    each(|project| {
        let internet = Internet::new();
        internet.name("db.test", &["127.0.0.1"]);
        let script = format!("{client} -h db.test -p {port} -U me postgres -Atc 'select 40 + 2'");
        let (rule, grant) = (format!("tcp://db.test:{port}"), format!("127.0.0.1/32:{port}"));
        let run = run_sh(&internet, project, &allowing(&[&rule, &grant]), &script);
        assert_eq!(run.stdout(), "42\n", "{}", run.text());
        // A rule for the host is one for TLS on another port.
        let run = run_sh(&internet, project, &allowing(&["db.test", &grant]), &script);
        assert_eq!((run.code(), run.stdout().as_str()), (Some(2), ""), "{}", run.text());
        assert!(told(&run)[0].contains("[port-not-allowed]"), "{}", run.text());
    });
}
