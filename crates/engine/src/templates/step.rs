//! One step of a build, through the same calls by which everybody works in a sandbox.

use super::builder::{Builder, Fault, of_api, reason, tail};
use super::chain::{Point, What, Work};
use super::log::Splitter;
use crate::engine::Engine;
use crate::inside::exec::{Collected, Following, Piece, Place};
use crate::inside::{Inside, InsideError, Wake};
use atoll_api::exec::{Ended, Exec, StartExec, Stream};
use atoll_api::files::MakeDirectory;
use atoll_api::id::{ExecId, SandboxId};
use atoll_api::octets::Octets;
use atoll_api::template::{BuildReason, BuildStream, FilesDigest};
use std::fmt;

/// What is kept of a command's output for the reason of a failure, in bytes.
const KEEP_BYTES: u64 = 16 << 10;
/// Longest text of a command in the log, in characters.
const SHOWN_CHARACTERS: usize = 200;

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run { shell, .. } => {
                let shown: String = shell.trim().chars().take(SHOWN_CHARACTERS).collect();
                write!(f, "run {}", shown.replace('\n', " "))
            }
            Self::Copy { to, .. } => write!(f, "copy to {to}"),
            Self::Directory(path) => write!(f, "workdir {path}"),
        }
    }
}

fn failed(error: &InsideError) -> Fault {
    Box::new(of_api(&error.to_api()))
}

fn path(text: &str) -> Result<Octets, Fault> {
    Octets::try_from(text).map_err(|error| Box::new(reason(format!("{text}: {error}"))))
}

impl Builder<'_> {
    /// Does a step in a sandbox.
    pub(super) async fn step(&self, id: SandboxId, work: &Work) -> Result<(), Fault> {
        let inside = self.engine.inside(id, Wake::IfAsleep).await;
        let inside = inside.map_err(|error| Box::new(of_api(&error.to_api())))?;
        match &work.what {
            What::Run { shell, point } => self.run(&inside, work.step, shell, point).await,
            What::Copy { files, to } => self.copy(&inside, *files, to).await,
            What::Directory(directory) => {
                let path = path(directory)?;
                let is_there = inside.stat(path.clone(), true).await.is_ok();
                let make = MakeDirectory { path, mode: None, make_parents: true };
                match is_there {
                    true => Ok(()),
                    false => inside.make_directory(make).await.map(drop).map_err(|e| failed(&e)),
                }
            }
        }
    }

    async fn copy(&self, inside: &Inside, files: FilesDigest, to: &str) -> Result<(), Fault> {
        let gone =
            || Box::new(reason(format!("the files {files} are not here any more; send them")));
        let mut archive = self.engine.shared().templates.files.read(files).map_err(|_| gone())?;
        let unpacked = inside.unpack(path(to)?, true, &mut archive).await;
        unpacked.map(drop).map_err(|error| failed(&error))
    }

    async fn run(
        &self,
        inside: &Inside,
        step: u32,
        shell: &str,
        point: &Point,
    ) -> Result<(), Fault> {
        let request = StartExec {
            shell: Some(shell.to_owned()),
            user: point.user,
            directory: point.workdir.as_deref().map(path).transpose()?,
            env: point.env.clone(),
            name: Some(format!("step {step}")),
            ..StartExec::default()
        };
        let started = inside.start_exec(request).await.map_err(|error| failed(&error))?;
        let (exec, printed) = self.follow(started.following, Some(step)).await?;
        let Some(ended) = exec.ended else {
            return Err(Box::new(reason("what became of the command is not known")));
        };
        if ended.exit_code == Some(0) {
            return Ok(());
        }
        let exit_code = ended.exit_code.map(i32::from);
        let message = format!("the command of step {step} {}", how(&ended));
        let output = Some(printed);
        Err(Box::new(BuildReason { exit_code, output, ..reason(message) }))
    }

    /// Follows a command, with all that it prints into the log; gives the last of that.
    async fn follow(
        &self,
        mut following: Following,
        step: Option<u32>,
    ) -> Result<(Exec, String), Fault> {
        let mut collected = Collected::new(KEEP_BYTES);
        let mut lines = [Splitter::default(), Splitter::default()];
        loop {
            let piece = following.next().await.map_err(|error| failed(&error))?;
            let Some(piece) = piece else { break };
            collected.take(&piece);
            match &piece {
                Piece::Bytes { stream, bytes, .. } => {
                    let (place, name) = match stream {
                        Stream::Stdout => (0, BuildStream::Stdout),
                        Stream::Stderr => (1, BuildStream::Stderr),
                    };
                    for line in lines[place].take(bytes) {
                        self.line(step, name, line);
                    }
                }
                Piece::Ended(_) => break,
                Piece::Dropped(_) | Piece::Heartbeat => {}
            }
        }
        for (splitter, name) in lines.iter_mut().zip([BuildStream::Stdout, BuildStream::Stderr]) {
            if let Some(rest) = splitter.rest() {
                self.line(step, name, rest);
            }
        }
        let (stdout, stderr) = collected.finish();
        Ok((following.exec().clone(), tail(&stdout) + &tail(&stderr)))
    }

    fn line(&self, step: Option<u32>, stream: BuildStream, line: String) {
        let now = self.engine.shared().clock.now();
        self.live.log.write(now, step, stream, line);
    }

    /// What a command has printed until now, which goes into the log too.
    pub(super) async fn printed(&self, id: SandboxId, exec: ExecId) -> String {
        let seen = async {
            let inside = Engine::inside(self.engine, id, Wake::Never).await.ok()?;
            let place = Place { is_snapshot: true, ..Place::START };
            let following = inside.follow_exec(exec, place).await.ok()?;
            self.follow(following, None).await.ok()
        };
        // Whoever cannot be asked says nothing.
        seen.await.map(|(_, printed)| printed).unwrap_or_default()
    }
}

/// How a command ended that did not end well.
fn how(ended: &Ended) -> String {
    match (ended.exit_code, ended.signal) {
        (Some(code), _) => format!("ended with {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "could not be started".to_owned(),
    }
}
