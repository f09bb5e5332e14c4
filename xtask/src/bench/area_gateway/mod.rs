//! The area of the gateway: what programs in a sandbox send and ask through it, against a relay
//! that only splices, against other proxies, and against no way at all.
//!
//! | budgets about | are in |
//! |---|---|
//! | bytes and connections that are passed through | [`passing`] |
//! | requests in opened TLS, with a secret put in | [`opened`] |
//! | what the gateway itself takes | [`cost`] |
//! | the other proxies | [`proxies`] |

mod cost;
mod opened;
mod passing;
mod proxies;

use super::build::Programs;
use super::group::{Collected, Results, compare, rounds};
use super::resident::Resident;
use crate::descendants::descendants;
use anyhow::{Context as _, Result, ensure};
use proxies::Proxy;
use std::cell::RefCell;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

type Group = super::group::Group<Scene>;

pub(super) const GROUPS: [Group; 8] = [
    passing::DOWNLOAD,
    passing::UPLOAD,
    passing::CONNECT,
    passing::PING,
    opened::RATE,
    opened::LATENCY,
    cost::START,
    cost::GATEWAY,
];

const GIB: u64 = 1 << 30;

/// What the servers wait for, which is outside alone.
const SECRET: &str = "the-real-value";

/// Servers, and all ways to them.
pub(super) struct Scene {
    /// Ways for bytes: straight, by the relay, through the gateway, by each proxy.
    ways: RefCell<Vec<Way>>,
    /// The one that opens TLS.
    mitmproxy: Option<RefCell<Resident>>,
    places: Places,
    // Behind those who use them, since they end in this order.
    _proxies: Vec<Proxy>,
    _relay: Resident,
    _servers: Resident,
}

/// A way, by the name of what it leads through.
struct Way {
    name: &'static str,
    load: Resident,
    /// The process that relays, if there is one.
    pid: Option<u32>,
}

/// Where things are.
struct Places {
    atoll: PathBuf,
    floor: PathBuf,
    scratch: PathBuf,
    /// The servers, at 127.0.0.1.
    dns: String,
    bulk: u16,
    site: u16,
}

const DIRECT: &str = "no way at all";
const RELAY: &str = "splice relay";
const ATOLL: &str = "atoll";

impl Scene {
    pub(super) fn new(programs: &Programs, scratch: &Path) -> Result<Self> {
        let scratch = scratch.join("gateway");
        for name in ["home", "project", "state"] {
            fs::create_dir_all(scratch.join(name))?;
        }
        let traffic = &programs.traffic;
        fs::copy(traffic, scratch.join("project/traffic"))?;
        let certificate = scratch.join("authority.pem");
        let mut servers = Resident::of(Command::new(traffic).arg("serve").arg(&certificate))?;
        let said = servers.hear().context("the servers did not start")?;
        let words: Vec<&str> = said.split(' ').collect();
        ensure!(words.len() == 3, "the servers said {said}");
        let places = Places {
            atoll: programs.atoll.clone(),
            floor: programs.floor.clone(),
            scratch,
            dns: words[0].to_owned(),
            bulk: words[1].parse()?,
            site: words[2].parse()?,
        };
        places.keep_secret()?;
        let (bulk, site) = (places.bulk, places.site);
        let [straight, to_site] = [bulk, site].map(|port| format!("127.0.0.1:{port}"));
        let load = |to: &str, proxy: Option<String>| {
            Resident::of(Command::new(traffic).args(["load", to, &to_site]).args(proxy))
        };
        let mut relay = Resident::of(Command::new(traffic).args(["relay", &bulk.to_string()]))?;
        let by_relay = format!("127.0.0.1:{}", relay.hear()?);
        let inside = places.inside()?;
        let gateway = gateway(inside.pid())?;
        let mut ways = vec![
            Way { name: DIRECT, load: load(&straight, None)?, pid: None },
            Way { name: RELAY, load: load(&by_relay, None)?, pid: Some(relay.pid()) },
            Way { name: ATOLL, load: inside, pid: Some(gateway) },
        ];
        let mut started = Vec::new();
        for start in [Proxy::tinyproxy, Proxy::squid] {
            let Some(proxy) = left_out(start(&places.scratch)) else { continue };
            let load = load(&straight, Some(proxy.address.clone()))?;
            ways.push(Way { name: proxy.name, load, pid: Some(proxy.pid()) });
            started.push(proxy);
        }
        let mut mitmproxy = None;
        if let Some(proxy) = left_out(Proxy::mitmproxy(&places.scratch)) {
            mitmproxy = Some(RefCell::new(load(&straight, Some(proxy.address.clone()))?));
            started.push(proxy);
        }
        let ways = RefCell::new(ways);
        Ok(Self { ways, mitmproxy, places, _proxies: started, _relay: relay, _servers: servers })
    }

    /// Has every way carry an order out in turn.
    fn in_turn(&self, count: u32, order: &str) -> Result<Vec<super::measure::Measured>> {
        let mut ways = self.ways.borrow_mut();
        let mut contestants: Vec<_> = ways
            .iter_mut()
            .map(|way| move |times: &mut Collected| times.note(way.name, way.load.order(order)))
            .collect();
        let mut contestants: Vec<&mut dyn FnMut(&mut Collected)> =
            contestants.iter_mut().map(|one| one as _).collect();
        rounds(count, &mut contestants)
    }
}

/// What is not installed is said, and missed by nobody.
fn left_out(proxy: Result<Proxy>) -> Option<Proxy> {
    proxy.inspect_err(|error| eprintln!("left out: {error:#}")).ok()
}

impl Places {
    /// `atoll`, with this place's own names, authority and secrets.
    fn atoll(&self) -> Command {
        let mut command = Command::new(&self.atoll);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.env("HOME", self.scratch.join("home")).current_dir(self.scratch.join("project"));
        command.env("ATOLL_STATE", self.scratch.join("state")).env("ATOLL_DNS", &self.dns);
        command.env("SSL_CERT_FILE", self.scratch.join("authority.pem"));
        command
    }

    fn keep_secret(&self) -> Result<()> {
        let mut command = self.atoll();
        command.args(["secret", "set", "TOKEN"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().context("cannot start atoll")?;
        child.stdin.take().context("stdin is piped")?.write_all(SECRET.as_bytes())?;
        let status = child.wait()?;
        ensure!(status.success(), "atoll secret set: {status}");
        Ok(())
    }

    /// A sandbox with the load in it, which may reach the servers.
    fn inside(&self) -> Result<Resident> {
        let Self { bulk, site, .. } = self;
        let policy = self.scratch.join("policy.toml");
        let text = format!(
            "[network]\nmode = \"rules\"\nallow = [\"bulk.test:{bulk}\", \"https://site.test:{site}\", \
             \"127.0.0.1/32:{bulk},{site}\"]\n\
             [network.secret.TOKEN]\nat = [\"https://site.test:{site}\"]\nas = \"bearer\"\n"
        );
        fs::write(&policy, text)?;
        // A static program does not look names up by itself.
        let script = format!(
            "of() {{ getent ahostsv4 $1 | head -n 1 | cut -d ' ' -f 1; }}; \
             exec ./traffic load $(of bulk.test):{bulk} $(of site.test):{site}"
        );
        let mut command = self.atoll();
        command.args(["run", "--policy"]).arg(policy).args(["--", "sh", "-c", &script]);
        let mut inside = Resident::of(&mut command)?;
        inside.order("connect 1").context("nothing is reached through the gateway")?;
        Ok(inside)
    }
}

/// The gateway of a run: of the two processes of that name the one that serves, which is the
/// other one's child and so comes behind it.
fn gateway(run: u32) -> Result<u32> {
    let all = descendants(run)?;
    let found = all.iter().rfind(|process| process.name == "atoll-gateway");
    Ok(found.context("no gateway runs")?.pid)
}

/// Of what programs are told, whatever the kernel counts itself: `USER_HZ`.
const TICKS_PER_SECOND: u32 = 100;

/// Processor time that a process has taken, its ended threads' too: proc_pid_stat(5).
fn processor_time(pid: u32) -> Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).context("it has ended")?;
    let (_, fields) = text.rsplit_once(") ").context("it has a name")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    let ticks = ticks(11).zip(ticks(12)).context("it has times")?;
    Ok(Duration::from_secs(ticks.0 + ticks.1) / TICKS_PER_SECOND)
}
