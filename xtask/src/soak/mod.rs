//! `cargo xtask soak`: many runs in a row leave nothing behind, nor does a server that
//! lives for long, nor one that is killed again and again, which loses nothing either.
//!
//! The runs happen in a pen of their own, so that whatever else goes on on the machine
//! is not taken for theirs.

mod census;
mod cuts;
mod kinds;
mod pen;
mod server;

use crate::bench::programs;
use crate::served::Served;
use anyhow::{Context as _, Result};
use census::{Census, Places};
use clap::ValueEnum as _;
use pen::Pen;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Run a command in a sandbox many times and look for what is left
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many runs
    #[arg(long, default_value_t = 10_000)]
    pub(crate) runs: u32,
    /// How many commands in a sandbox of each server
    #[arg(long, default_value_t = 2_000)]
    pub(crate) execs: u32,
    /// How many sandboxes each server makes and deletes
    #[arg(long, default_value_t = 100)]
    pub(crate) cycles: u32,
    /// How often a server is killed in the midst of what it does
    #[arg(long, default_value_t = 200)]
    pub(crate) cuts: u32,
    /// Which random choices are made between these; others each time where none is given
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) inside: Option<Inside>,
}

/// What this process is told when it runs itself again, in a pen.
#[derive(Debug, clap::Args)]
#[group(requires_all = ["pen", "program"])]
pub(crate) struct Inside {
    #[arg(long, hide = true, required = false)]
    pen: Pen,
    #[arg(long, hide = true, required = false)]
    program: PathBuf,
    /// Whom the runs are by, if not by the caller
    #[arg(long, hide = true)]
    user: Option<u32>,
}

/// An ordinary user that no machine has an account for.
pub(crate) const ORDINARY: u32 = 54_321;

/// The kernel frees network namespaces in a worker of its own, and keys later still.
const SETTLE: Duration = Duration::from_secs(60);

pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(told) = &args.inside {
        return inside(told, args);
    }
    let program = programs()?;
    let pens = pen::pens();
    let runs = (args.runs / u32::try_from(pens.len())?).to_string();
    let start = |pen: Pen, user: Option<u32>| -> Result<()> {
        let name = pen.to_possible_value().context("no pen is hidden")?;
        let mut words =
            ["soak", "--runs", &runs, "--pen", name.get_name()].map(OsString::from).to_vec();
        words.extend([OsString::from("--program"), program.clone().into()]);
        let counts = [("--execs", args.execs), ("--cycles", args.cycles), ("--cuts", args.cuts)];
        for (flag, count) in counts {
            words.extend([flag.into(), OsString::from(count.to_string())]);
        }
        if let Some(seed) = args.seed {
            words.extend(["--seed".into(), OsString::from(seed.to_string())]);
        }
        if let Some(uid) = user {
            words.extend(["--user".into(), OsString::from(uid.to_string())]);
        }
        pen::start(pen, &words)
    };
    // All at once: runs also meet each other's groups.
    std::thread::scope(|scope| {
        let pens: Vec<_> =
            pens.iter().map(|&(pen, user)| scope.spawn(move || start(pen, user))).collect();
        let ended = pens.into_iter().map(|pen| pen.join().expect("no thread panics"));
        ended.fold(Ok(()), Result::and)
    })
}

/// Everything that happens in one pen.
fn inside(told: &Inside, args: &Args) -> Result<()> {
    let Inside { pen, program, user } = told;
    // Orphans become this process's children, and are counted with them.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let image = fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    let temporary = if *pen == Pen::None { Vec::new() } else { pen::close()? };
    let scratch = Scratch::make(&image)?;
    let home = scratch.home(*user)?;
    let mut places = Places {
        trees: if temporary.is_empty() { vec![scratch.base.clone()] } else { temporary },
        spaces: user.filter(|_| *pen == Pen::Counted),
        history: Vec::new(),
    };
    let who = user.map_or("the caller".to_owned(), |uid| format!("user {uid}"));
    let who = format!("by {who}, pen {pen:?}");
    if let Some(uid) = places.spaces {
        pen::control(uid)?;
    }
    if args.runs > 0 {
        run_often(args.runs, &scratch, &home, *user, &places)
            .map(|told| println!("{} runs {who} {told}", args.runs))?;
    }
    if args.execs > 0 || args.cycles > 0 {
        let folder = scratch.own("server", *user)?;
        let served = Served::start(&scratch.program, &folder, *user)?;
        // What it tells of the past is bounded by itself.
        places.history =
            ["records.sqlite", "audit/audit-"].map(|name| folder.join("state").join(name)).into();
        serve_long(args, &served, &places).map(|told| {
            println!("{} execs and {} cycles {who} {told}", args.execs, args.cycles);
        })?;
    }
    if args.cuts > 0 {
        let folder = scratch.own("cut", *user)?;
        places.history = ["state/records.sqlite", "state/audit/audit-", "log"]
            .map(|name| folder.join(name))
            .into();
        let seed = args.seed.map_or_else(cuts::any_seed, Ok)?;
        cut_often(args.cuts, seed, &scratch.program, &folder, *user, &places)
            .map(|told| println!("{} cuts {who} {told}", args.cuts))
            .with_context(|| format!("--seed {seed}"))?;
    }
    Ok(())
}

fn run_often(
    runs: u32,
    scratch: &Scratch,
    home: &Home,
    user: Option<u32>,
    places: &Places,
) -> Result<String> {
    // The first runs make what is kept on purpose: the project's cache.
    for number in 0..kinds::count() {
        kinds::run(number, &scratch.program, home, user)?;
    }
    let before = Census::take(places)?;
    let begin = Instant::now();
    for number in 0..runs {
        kinds::run(number, &scratch.program, home, user)
            .with_context(|| format!("run {number}"))?;
        census::reap();
    }
    let took = begin.elapsed();
    before.compare(places, SETTLE)?;
    Ok(format!("in {took:.0?} left nothing beside {before}"))
}

/// So many first execs and cycles fill what is kept up to a limit: execs that have ended,
/// and a server's idea of how much memory it needs.
const FIRST: (u32, u32) = (1_500, 40);

fn serve_long(args: &Args, served: &Served, places: &Places) -> Result<String> {
    let sandbox = server::sandbox(served)?;
    let (execs, cycles) = FIRST;
    server::execs(served, &sandbox, execs)?;
    server::cycles(served, cycles)?;
    served.wait_for_so_few(1)?;
    census::reap();
    let before = Census::take(places)?;
    let begin = Instant::now();
    server::execs(served, &sandbox, args.execs)?;
    server::cycles(served, args.cycles)?;
    let took = begin.elapsed();
    served.wait_for_so_few(1)?;
    // First processes of sandboxes were nobody's children but ours.
    census::reap();
    before.compare(places, SETTLE).with_context(|| served.log())?;
    Ok(format!("in {took:.0?} left nothing beside {before}"))
}

/// What is left is counted while no server runs: a later one is another process.
fn cut_often(
    count: u32,
    seed: u64,
    program: &Path,
    folder: &Path,
    user: Option<u32>,
    places: &Places,
) -> Result<String> {
    let serve = |count: u32| -> Result<String> {
        let mut served = Served::start(program, folder, user)?;
        let told = cuts::cuts(&mut served, count, seed).with_context(|| served.log())?;
        served.wait_for_so_few(0)?;
        drop(served);
        census::reap();
        Ok(told)
    };
    serve(0)?;
    let before = Census::take(places)?;
    let told = serve(count)?;
    before.compare(places, SETTLE)?;
    Ok(format!("{told}, and left nothing beside {before}"))
}

/// A project and a home.
struct Home {
    root: PathBuf,
    home: PathBuf,
}

/// A directory that goes when this does.
struct Scratch {
    base: PathBuf,
    program: PathBuf,
}

impl Scratch {
    fn make(image: &[u8]) -> Result<Self> {
        let base = std::env::temp_dir().join(format!("atoll-soak-{}", std::process::id()));
        fs::create_dir(&base).with_context(|| format!("cannot make {}", base.display()))?;
        let scratch = Self { program: base.join("atoll"), base };
        fs::write(&scratch.program, image).context("cannot copy atoll")?;
        for path in [&scratch.base, &scratch.program] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
        }
        Ok(scratch)
    }

    fn home(&self, user: Option<u32>) -> Result<Home> {
        Ok(Home { root: self.own("project", user)?, home: self.own("home", user)? })
    }

    /// A directory of the user's own.
    fn own(&self, name: &str, user: Option<u32>) -> Result<PathBuf> {
        let path = self.base.join(format!("{name}-{}", user.unwrap_or(0)));
        fs::create_dir(&path)?;
        chown(&path, user, user)?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.base).ok();
    }
}
