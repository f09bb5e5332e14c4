//! `cargo xtask soak`: many runs in a row leave nothing behind.
//!
//! The runs happen in a pen of their own, so that whatever else goes on on the machine
//! is not taken for theirs.

mod census;
mod kinds;
mod pen;

use crate::bench::programs;
use anyhow::{Context as _, Result};
use census::{Census, Places};
use clap::ValueEnum as _;
use pen::Pen;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Run a command in a sandbox many times and look for what is left
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many runs
    #[arg(long, default_value_t = 10_000)]
    pub(crate) runs: u32,
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
        return inside(told, args.runs);
    }
    let program = programs()?;
    let pens = pen::pens();
    let runs = (args.runs / u32::try_from(pens.len())?).to_string();
    let start = |pen: Pen, user: Option<u32>| -> Result<()> {
        let name = pen.to_possible_value().context("no pen is hidden")?;
        let mut words =
            ["soak", "--runs", &runs, "--pen", name.get_name()].map(OsString::from).to_vec();
        words.extend([OsString::from("--program"), program.clone().into()]);
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
fn inside(told: &Inside, runs: u32) -> Result<()> {
    let Inside { pen, program, user } = told;
    // Orphans become this process's children, and are counted with them.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let image = fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    let temporary = if *pen == Pen::None { Vec::new() } else { pen::close()? };
    let scratch = Scratch::make(&image)?;
    let home = scratch.home(*user)?;
    let places = Places {
        trees: if temporary.is_empty() { vec![scratch.base.clone()] } else { temporary },
        spaces: user.filter(|_| *pen == Pen::Counted),
    };
    // The first runs make what is kept on purpose: the project's cache.
    for number in 0..kinds::count() {
        kinds::run(number, &scratch.program, &home, *user)?;
    }
    if let Some(uid) = places.spaces {
        pen::control(uid)?;
    }
    let before = Census::take(&places)?;
    let begin = Instant::now();
    for number in 0..runs {
        kinds::run(number, &scratch.program, &home, *user)
            .with_context(|| format!("run {number}"))?;
        census::reap();
    }
    let took = begin.elapsed();
    before.compare(&places, SETTLE)?;
    let who = user.map_or("the caller".to_owned(), |uid| format!("user {uid}"));
    println!("{runs} runs by {who} in {took:.0?}, pen {pen:?}, left nothing beside {before}");
    Ok(())
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
        let of = |name: &str| -> Result<PathBuf> {
            let path = self.base.join(format!("{name}-{}", user.unwrap_or(0)));
            fs::create_dir(&path)?;
            chown(&path, user, user)?;
            Ok(path)
        };
        Ok(Home { root: of("project")?, home: of("home")? })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.base).ok();
    }
}
