//! Runs contestants one after the other, round by round, so that whatever
//! disturbs the machine disturbs all of them.

use anyhow::{Context as _, Result};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// One command that is measured from start to exit.
#[derive(Clone)]
pub(super) struct Contestant {
    pub(super) name: &'static str,
    pub(super) command: Vec<OsString>,
    pub(super) project: PathBuf,
    pub(super) home: PathBuf,
    /// Linked into the project, which is otherwise empty before each run.
    pub(super) files: Vec<PathBuf>,
}

/// The times of one contestant, or why it has none.
pub(super) struct Measured {
    pub(super) name: &'static str,
    pub(super) times: Result<Times, String>,
}

/// Wall times from shortest to longest; never empty.
pub(super) struct Times(Vec<Duration>);

impl Times {
    pub(super) fn min(&self) -> Duration {
        self.0[0]
    }

    pub(super) fn median(&self) -> Duration {
        self.at(50)
    }

    pub(super) fn p95(&self) -> Duration {
        self.at(95)
    }

    /// Each of them less by so much.
    pub(super) fn less(&self, part: Duration) -> Self {
        Self(self.0.iter().map(|time| time.saturating_sub(part)).collect())
    }

    /// The nearest rank.
    fn at(&self, percent: usize) -> Duration {
        self.0[(self.0.len() * percent).div_ceil(100).max(1) - 1]
    }
}

impl From<Vec<Duration>> for Times {
    fn from(mut times: Vec<Duration>) -> Self {
        assert!(!times.is_empty(), "measured in at least one round");
        times.sort_unstable();
        Self(times)
    }
}

/// What the contestant before left to kernel threads, such as its network namespace,
/// is not for the next one to pay.
const SETTLING: Duration = Duration::from_millis(5);

#[expect(clippy::disallowed_methods, reason = "nobody can be asked whether it is done")]
pub(super) fn settle() {
    std::thread::sleep(SETTLING);
}

/// One warm-up round, then the rounds. A contestant that fails once is out.
pub(super) fn interleaved(contestants: &[Contestant], rounds: u32) -> Result<Vec<Measured>> {
    let mut results: Vec<Result<Vec<Duration>, String>> = Vec::new();
    for contestant in contestants {
        results.push(contestant.warm_up()?.map(|()| Vec::new()));
    }
    for round in 1..=rounds {
        for at in order(contestants.len(), usize::try_from(round)?) {
            let Ok(times) = &mut results[at] else { continue };
            match contestants[at].time()? {
                (took, status) if status.success() => times.push(took),
                (_, status) => results[at] = Err(format!("{status} in round {round}")),
            }
        }
    }
    let named = contestants.iter().map(|contestant| contestant.name).zip(results);
    Ok(named.map(|(name, times)| Measured { name, times: times.map(Times::from) }).collect())
}

/// The contestants of a round, so that over the rounds each comes after each other:
/// what the one before left behind is then nobody's alone.
pub(super) fn order(count: usize, round: usize) -> impl Iterator<Item = usize> {
    let steps: Vec<usize> = (1..=count).filter(|step| is_coprime(*step, count)).collect();
    let step = steps[round % steps.len()];
    (0..count).map(move |index| (index * step + round) % count)
}

fn is_coprime(a: usize, b: usize) -> bool {
    if b == 0 { a == 1 } else { is_coprime(b, a % b) }
}

impl Contestant {
    /// Runs once; the inner error is what the contestant itself said.
    fn warm_up(&self) -> Result<Result<(), String>> {
        self.enter()?;
        let output = match self.command().output() {
            Ok(output) => output,
            Err(error) => return Ok(Err(format!("cannot start: {error}"))),
        };
        if output.status.success() {
            return Ok(Ok(()));
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> =
            said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let first = lines.get(..2).unwrap_or(&lines).join("; ");
        Ok(Err(format!("{}: {first}", output.status)))
    }

    /// Times one run. What is not the run itself is prepared before.
    fn time(&self) -> Result<(Duration, ExitStatus)> {
        self.enter()?;
        settle();
        let null = File::options().read(true).write(true).open("/dev/null")?;
        let mut command = self.command();
        command.stdin(null.try_clone()?).stdout(null.try_clone()?).stderr(null);
        let begin = Instant::now();
        let status = command.status().with_context(|| format!("cannot start {}", self.name))?;
        Ok((begin.elapsed(), status))
    }

    /// Enters the project here rather than in the child: std then starts it by
    /// vfork, which does not copy this program's memory map.
    fn enter(&self) -> Result<()> {
        let project = self.project.display();
        match fs::remove_dir_all(&self.project) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot empty {project}"));
            }
            _ => {}
        }
        fs::create_dir(&self.project).with_context(|| format!("cannot make {project}"))?;
        for file in &self.files {
            let name = file.file_name().context("a file of the project has a name")?;
            fs::hard_link(file, self.project.join(name))
                .with_context(|| format!("cannot link {} into {project}", file.display()))?;
        }
        std::env::set_current_dir(&self.project).with_context(|| format!("cannot enter {project}"))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).env_clear().env("HOME", &self.home);
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").stdin(Stdio::null());
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(milliseconds: impl IntoIterator<Item = u64>) -> Times {
        milliseconds.into_iter().map(Duration::from_millis).collect::<Vec<_>>().into()
    }

    #[test]
    fn every_round_has_every_contestant_once_and_in_another_order() {
        for count in 1..9 {
            for round in 0..20 {
                let mut all: Vec<usize> = order(count, round).collect();
                all.sort_unstable();
                assert_eq!(all, (0..count).collect::<Vec<_>>(), "{count} {round}");
            }
        }
        let first: Vec<usize> = order(7, 0).collect();
        let second: Vec<usize> = order(7, 1).collect();
        assert_eq!((&first[..3], &second[..3]), (&[0, 1, 2][..], &[1, 3, 5][..]));
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let hundred = times((1..=100).rev());
        assert_eq!(hundred.min().as_millis(), 1);
        assert_eq!(hundred.median().as_millis(), 50);
        assert_eq!(hundred.p95().as_millis(), 95);
        let one = times([7]);
        assert_eq!((one.min(), one.median(), one.p95()), (one.0[0], one.0[0], one.0[0]));
    }

    #[test]
    fn a_contestant_that_fails_gives_its_reason() {
        let scratch = tempfile::tempdir().unwrap();
        let contestant = |name, script: &str| Contestant {
            name,
            command: ["/bin/sh", "-c", script].map(OsString::from).to_vec(),
            project: scratch.path().join(name),
            home: scratch.path().into(),
            files: Vec::new(),
        };
        let contestants = [
            contestant("good", "true"),
            contestant("bad", "echo 'no luck' >&2; exit 3"),
            Contestant { command: vec!["/nonexistent".into()], ..contestant("absent", "") },
        ];
        let results = interleaved(&contestants, 3).unwrap();
        assert_eq!(results[0].times.as_ref().unwrap().0.len(), 3);
        let reason = results[1].times.as_ref().err().unwrap();
        assert!(reason.contains("3: no luck"), "{reason}");
        assert!(results[2].times.is_err());
    }
}
