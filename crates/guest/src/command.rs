//! The program to run and its arguments, as the kernel takes them.

use atoll_sys::exec::Arguments;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Candidates for the program with the arguments for each.
#[derive(Debug)]
pub struct Command {
    pub programs: Vec<CString>,
    pub arguments: Arguments,
    /// For a script without `#!`: one for each of `programs`.
    pub shell_arguments: Vec<Arguments>,
}

/// An argument with a NUL byte in it.
#[derive(Debug, PartialEq, Eq)]
pub struct HasNul;

/// Lays the command out: a name with a slash is taken as it is, another is
/// looked for along `path`, as execvp(3) does.
///
/// # Errors
///
/// [`HasNul`].
pub fn lay_out(
    words: &[OsString],
    path: &OsStr,
    environment: &[CString],
) -> Result<Command, HasNul> {
    let strings: Vec<CString> = words.iter().map(|word| string(word)).collect::<Result<_, _>>()?;
    let name = words.first().map(OsString::as_os_str).unwrap_or_default();
    let candidates: Vec<PathBuf> = if name.as_bytes().contains(&b'/') || name.is_empty() {
        vec![PathBuf::from(name)]
    } else {
        std::env::split_paths(path).map(|directory| directory.join(name)).collect()
    };
    let mut programs = Vec::with_capacity(candidates.len());
    let mut shell_arguments = Vec::with_capacity(candidates.len());
    for candidate in &candidates {
        let program = string(candidate.as_os_str())?;
        let mut shell = vec![CString::from(c"/bin/sh"), program.clone()];
        shell.extend(strings.iter().skip(1).cloned());
        shell_arguments.push(Arguments::new(shell, environment.to_vec()));
        programs.push(program);
    }
    let arguments = Arguments::new(strings, environment.to_vec());
    Ok(Command { programs, arguments, shell_arguments })
}

fn string(text: &OsStr) -> Result<CString, HasNul> {
    CString::new(text.as_bytes()).map_err(|_| HasNul)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs(word: &str) -> Vec<String> {
        let command = lay_out(&[word.into()], OsStr::new("/a:/b"), &[]).unwrap();
        command.programs.into_iter().map(|program| program.into_string().unwrap()).collect()
    }

    #[test]
    fn a_name_is_looked_for_along_path_and_a_path_is_not() {
        assert_eq!(programs("make"), ["/a/make", "/b/make"]);
        assert_eq!(programs("./make"), ["./make"]);
        assert_eq!(programs(""), [""]);
    }
}
