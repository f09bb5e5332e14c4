//! Begins a build, with the files that it copies, and follows it.

use super::files::{Directory, Source};
use crate::error::CliError;
use crate::remote::{EXIT_REFUSED, Format, Remote, lines, neutral, say};
use crate::status::Status;
use atoll_api::id::BuildId;
use atoll_api::template::file::{TEMPLATE_FILE, TemplateFile, parse};
use atoll_api::template::{Build, BuildState, BuildStream, FilesDigest};
use atoll_client::templates::Told;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Reads a file, sends what it copies and is not there, and begins the build.
pub(super) fn begin(path: &Path, no_cache: bool, remote: &Remote) -> Result<Build, CliError> {
    let (file, directory) = read(path)?;
    let mut files = BTreeMap::new();
    if !file.copies().is_empty() {
        let directory = Directory::of(directory)?;
        for (place, copy) in file.copies() {
            let digest = send(&directory.source(&copy.from)?, remote).map_err(|error| {
                error.hint(format!("line {} of the template copies {}", copy.line, copy.from))
            })?;
            files.insert(*place, digest);
        }
    }
    let request = file.request(&files);
    let mut request =
        request.map_err(|_| CliError::new("a step copies files that were not sent"))?;
    request.no_cache = no_cache;
    remote.ask(async |client| client.build_template(&request).await)
}

/// The template of a file, and the directory that its paths are below.
fn read(path: &Path) -> Result<(TemplateFile, PathBuf), CliError> {
    let file = if path.is_dir() { path.join(TEMPLATE_FILE) } else { path.to_owned() };
    let told = || CliError::new(format!("cannot use the template {}", file.display()));
    let bytes = std::fs::read(&file).map_err(|error| {
        told().because(error).hint("name a file, or a directory with a template.toml")
    })?;
    let template = parse(&bytes).map_err(|error| told().because(error))?;
    let whole = file.canonicalize().map_err(|error| told().because(error))?;
    let directory = whole.parent().map(Path::to_owned).unwrap_or_default();
    Ok((template, directory))
}

/// Sends files unless they are there.
fn send(source: &Source, remote: &Remote) -> Result<FilesDigest, CliError> {
    let digest = source.digest()?;
    if remote.ask(async |client| client.get_build_files(digest).await)?.present {
        return Ok(digest);
    }
    let (upload, packed) = source.begin();
    let sent = remote.ask(async |client| client.send_build_files(digest, upload).await);
    packed()?;
    sent.map_err(|error| error.hint("if the files changed meanwhile, build it again"))?;
    Ok(digest)
}

/// Shows what a build says, and how it ends.
pub(super) fn follow(id: BuildId, remote: &Remote) -> Result<Status, CliError> {
    let format = remote.format();
    let mut stderr = std::io::stderr();
    let told = remote.ask(async |client| {
        let mut next = 0;
        loop {
            let mut stream = client.follow_build(id, next).await?;
            while let Some(told) = stream.next().await? {
                let line = match told {
                    Told::Line(line) => line,
                    other => return Ok(other),
                };
                next = line.offset + 1;
                if format == Format::Json {
                    // Whoever does not read it any more may want the build still.
                    say(&lines(&[serde_json::json!({ "log": line })])).ok();
                    continue;
                }
                let mark = if line.stream == BuildStream::Build { "==> " } else { "" };
                // What commands print may not drive the terminal.
                writeln!(stderr, "{mark}{}", neutral(&line.message)).ok();
            }
            // It broke off, and goes on where it was.
        }
    })?;
    let Told::Ended(build) = told else {
        let error = CliError::new("the server ended before the build did");
        return Err(error.hint("build it again: steps that were done are not done again"));
    };
    if format == Format::Json {
        say(&lines(&[serde_json::json!({ "build": build })]))?;
        return Ok(match build.state {
            BuildState::Ready => Status::SUCCESS,
            _ => Status::FAILURE,
        });
    }
    ended(&build)
}

fn ended(build: &Build) -> Result<Status, CliError> {
    if let (BuildState::Ready, Some(version)) = (build.state, build.version) {
        return say(&format!("{}@{version}\n", build.name)).map(|_| Status::SUCCESS);
    }
    let message = format!(
        "build {} {}",
        build.id,
        match build.state {
            BuildState::Cancelled => "was cancelled",
            _ => "failed",
        }
    );
    let reason = build.reason.as_ref().map(|reason| reason.message.clone()).unwrap_or_default();
    let error = CliError::new(message).because(neutral(&reason)).exit_with(EXIT_REFUSED);
    Err(error.hint("steps that were done are not done again by the next build"))
}
