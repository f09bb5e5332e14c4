//! Starts the tools. Their output goes straight to the terminal, so nothing
//! that a failing tool says is lost.

use crate::workspace;
use anyhow::{Context as _, Result, bail};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

/// The cargo that started us, in the root of the repository.
pub(crate) fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(workspace::root());
    command
}

/// Runs a command after printing it; an exit status other than 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", line(command));
    let status = command.status().with_context(|| format!("cannot start `{}`", line(command)))?;
    if !status.success() {
        bail!("`{}` failed: {status}", line(command));
    }
    Ok(())
}

/// Runs a command and gives its standard output; stderr is not captured.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{}`", line(command)))?;
    if !output.status.success() {
        eprint!("{}", String::from_utf8_lossy(&output.stdout));
        bail!("`{}` failed: {}", line(command), output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{}` printed no text", line(command)))
}

/// Runs a command like [`run`], and gives the lines that it printed as well.
pub(crate) fn lines(command: &mut Command) -> Result<Vec<String>> {
    println!("$ {}", line(command));
    let child = command.stdout(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("cannot start `{}`", line(command)))?;
    let stdout = child.stdout.take().expect("stdout is piped");
    let mut lines = Vec::new();
    for line in BufReader::new(stdout).lines() {
        let line = line.context("cannot read what the command prints")?;
        println!("{line}");
        lines.push(line);
    }
    let status = child.wait().context("cannot wait for the command")?;
    if !status.success() {
        bail!("`{}` failed: {status}", line(command));
    }
    Ok(lines)
}

/// Whether a command starts and exits with status 0; silent.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// What is printed of a command.
pub(crate) fn line(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let mut line = name.to_string_lossy().into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line += &arg.to_string_lossy();
    }
    line
}
