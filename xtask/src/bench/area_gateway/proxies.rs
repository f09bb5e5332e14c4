//! Other proxies: tinyproxy and squid of the distribution, mitmproxy in an environment of its own.

use crate::bench::measure::settle;
use crate::process;
use crate::workspace;
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long one may take to be there; mitmproxy has much to read.
const PATIENCE: Duration = Duration::from_secs(30);

/// A proxy that runs, and ends with this.
pub(super) struct Proxy {
    pub(super) name: &'static str,
    pub(super) address: String,
    child: Child,
}

impl Proxy {
    pub(super) fn tinyproxy(scratch: &Path) -> Result<Self> {
        let program = installed("tinyproxy", "apt-get install tinyproxy")?;
        let port = port()?;
        let path = scratch.join("tinyproxy.conf");
        let log = scratch.join("tinyproxy.log");
        let text = format!(
            "Port {port}\nListen 127.0.0.1\nTimeout 600\nMaxClients 2000\nLogLevel Critical\n\
             LogFile \"{}\"\n",
            log.display()
        );
        fs::write(&path, text)?;
        Self::start("tinyproxy", port, Command::new(program).arg("-d").arg("-c").arg(path))
    }

    pub(super) fn squid(scratch: &Path) -> Result<Self> {
        let program = installed("squid", "apt-get install squid")?;
        let port = port()?;
        let path = scratch.join("squid.conf");
        let text = format!(
            "http_port 127.0.0.1:{port}\nhttp_access allow all\ncache deny all\naccess_log none\n\
             cache_log /dev/null\ncache_store_log none\npid_filename none\n\
             shutdown_lifetime 0 seconds\npinger_enable off\n"
        );
        fs::write(&path, text)?;
        Self::start("squid", port, Command::new(program).args(["-N", "-f"]).arg(path))
    }

    /// With an add-on that sets a header, which is the least that puts a secret in.
    pub(super) fn mitmproxy(scratch: &Path) -> Result<Self> {
        let program = mitmdump().context("mitmproxy cannot be installed from PyPI")?;
        let port = port()?;
        let path = scratch.join("inject.py");
        let text = format!(
            "def request(flow):\n    flow.request.headers[\"authorization\"] = \"Bearer {}\"\n",
            super::SECRET
        );
        fs::write(&path, text)?;
        let mut command = Command::new(program);
        command.args(["--quiet", "--listen-host", "127.0.0.1", "--listen-port", &port.to_string()]);
        command.arg("--ssl-insecure").arg("--scripts").arg(path);
        command.arg("--set").arg(format!("confdir={}", scratch.join("mitmproxy").display()));
        Self::start("mitmproxy", port, &mut command)
    }

    fn start(name: &'static str, port: u16, command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let mut proxy = Self { name, address: format!("127.0.0.1:{port}"), child };
        let begin = Instant::now();
        while TcpStream::connect(&proxy.address).is_err() {
            if let Some(status) = proxy.child.try_wait()? {
                bail!("{name} has ended: {status}");
            }
            if begin.elapsed() > PATIENCE {
                bail!("{name} does not answer");
            }
            settle();
        }
        Ok(proxy)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn installed(program: &str, how: &str) -> Result<PathBuf> {
    let places = ["/usr/bin", "/usr/sbin"].map(|folder| Path::new(folder).join(program));
    let found = places.into_iter().find(|path| path.exists());
    found.with_context(|| format!("{program} is not installed (`{how}`)"))
}

/// One that nobody listened at a moment ago.
fn port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// In an environment that is made once and stays with what is built.
fn mitmdump() -> Result<PathBuf> {
    let folder = workspace::root().join("target/bench/mitmproxy");
    let program = folder.join("bin/mitmdump");
    if !program.exists() {
        process::output(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        let pip = folder.join("bin/pip");
        process::output(Command::new(pip).args(["install", "--quiet", "mitmproxy"]))?;
    }
    Ok(program)
}
