//! The environment inside: an allowlist, so that no secret comes along.

use atoll_api::policy::Env;
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Variables that never come along even by a pattern such as `*`: they point at
/// the caller's own runtime.
const NEVER: [&str; 4] = ["OLDPWD", "PWD", "SHLVL", "_"];

/// The environment inside, and what was left out.
#[derive(Debug)]
pub(crate) struct Environment {
    variables: BTreeMap<OsString, OsString>,
    /// Names of the caller's variables that stay outside.
    pub(crate) dropped: Vec<OsString>,
    /// Entries of the caller's PATH that are not visible inside.
    pub(crate) hidden_path: Vec<PathBuf>,
}

/// What of the caller's the environment is made from.
pub(crate) struct Given<'a> {
    pub(crate) caller: &'a [(OsString, OsString)],
    pub(crate) policy: &'a Env,
    pub(crate) home: &'a Path,
    pub(crate) user: &'a str,
    /// The shell, where it is not the caller's.
    pub(crate) shell: Option<&'a Path>,
    /// Where the command starts.
    pub(crate) directory: &'a Path,
}

/// Builds the environment. `visible` says whether a directory is in the view.
pub(crate) fn build(given: &Given<'_>, visible: &dyn Fn(&Path) -> bool) -> Environment {
    let mut variables = BTreeMap::new();
    let mut dropped = Vec::new();
    for (name, value) in given.caller {
        if NEVER.iter().any(|never| name == never) || name == "PATH" {
            continue;
        }
        if given.policy.passes(name.as_bytes()) {
            variables.insert(name.clone(), value.clone());
        } else {
            dropped.push(name.clone());
        }
    }
    let path = given.caller.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value);
    let (path, hidden_path) = search_path(path.map(OsString::as_os_str), visible);
    let mut set = |name: &str, value: &OsStr| variables.insert(name.into(), value.to_owned());
    set("PATH", &path);
    set("HOME", given.home.as_os_str());
    set("USER", OsStr::new(given.user));
    if let Some(shell) = given.shell {
        set("SHELL", shell.as_os_str());
    }
    set("LOGNAME", OsStr::new(given.user));
    set("PWD", given.directory.as_os_str());
    set("ATOLL", OsStr::new("1"));
    for (name, value) in &given.policy.set {
        set(name, &value.value);
    }
    Environment { variables, dropped, hidden_path }
}

/// PATH without the entries that nobody inside could use. Relative entries stay
/// out: the working directory would choose the program.
fn search_path(path: Option<&OsStr>, visible: &dyn Fn(&Path) -> bool) -> (OsString, Vec<PathBuf>) {
    let default = OsStr::new("/usr/local/bin:/usr/bin:/bin");
    let entries = std::env::split_paths(path.unwrap_or(default));
    let (kept, hidden): (Vec<PathBuf>, Vec<PathBuf>) =
        entries.partition(|entry| entry.is_absolute() && visible(entry));
    let joined = std::env::join_paths(kept).unwrap_or_else(|_| default.to_owned());
    (joined, hidden.into_iter().filter(|entry| entry.is_absolute()).collect())
}

impl Environment {
    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Sets a variable, whatever it was.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.variables.insert(name.into(), value.into());
    }

    /// The variables as execve(2) takes them. One with a NUL byte cannot have
    /// come from anywhere and is left out.
    pub(crate) fn strings(&self) -> Vec<CString> {
        self.variables
            .iter()
            .filter_map(|(name, value)| {
                let mut text = name.clone().into_vec();
                text.push(b'=');
                text.extend(value.as_bytes());
                CString::new(text).ok()
            })
            .collect()
    }
}

/// The working directory inside: the caller's own if it is visible there, else
/// the project's root, else the home directory.
pub(crate) fn directory(current: Option<&Path>, project: Option<&Path>, home: &Path) -> PathBuf {
    match (current, project) {
        (Some(current), Some(project)) if current.starts_with(project) => current.to_owned(),
        (_, Some(project)) => project.to_owned(),
        (_, None) => home.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_api::policy::EffectivePolicy;

    fn built(caller: &[(&str, &str)]) -> Environment {
        let caller: Vec<(OsString, OsString)> =
            caller.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let policy = EffectivePolicy::built_in();
        let given = Given {
            caller: &caller,
            policy: &policy.env,
            home: Path::new("/home/ada"),
            user: "ada",
            shell: None,
            directory: Path::new("/home/ada/work"),
        };
        build(&given, &|path| path.starts_with("/usr"))
    }

    #[test]
    fn secrets_and_loaders_stay_outside() {
        let names = [
            "AWS_SECRET_ACCESS_KEY",
            "BASH_ENV",
            "DBUS_SESSION_BUS_ADDRESS",
            "GH_TOKEN",
            "GIT_SSH_COMMAND",
            "KUBECONFIG",
            "LD_PRELOAD",
            "NPM_TOKEN",
            "PYTHONSTARTUP",
            "SSH_AUTH_SOCK",
            "NODE_OPTIONS",
            "XDG_RUNTIME_DIR",
            "PERL5LIB",
        ];
        let caller: Vec<(&str, &str)> = names.iter().map(|name| (*name, "secret")).collect();
        let environment = built(&caller);
        for name in names {
            assert_eq!(environment.get(name), None, "{name}");
            assert!(environment.dropped.iter().any(|dropped| dropped == name), "{name}");
        }
    }

    #[test]
    fn language_and_terminal_come_along() {
        let environment = built(&[("LANG", "C.UTF-8"), ("LC_TIME", "de_DE"), ("TERM", "xterm")]);
        assert_eq!(environment.get("LANG"), Some(OsStr::new("C.UTF-8")));
        assert_eq!(environment.get("LC_TIME"), Some(OsStr::new("de_DE")));
        assert_eq!(environment.get("TERM"), Some(OsStr::new("xterm")));
        assert!(environment.dropped.is_empty());
    }

    #[test]
    fn path_keeps_what_is_visible_and_says_what_is_not() {
        let environment = built(&[("PATH", "/usr/bin:.:/home/ada/secret/bin:/usr/local/bin")]);
        assert_eq!(environment.get("PATH"), Some(OsStr::new("/usr/bin:/usr/local/bin")));
        assert_eq!(environment.hidden_path, [PathBuf::from("/home/ada/secret/bin")]);
    }

    #[test]
    fn the_command_starts_where_the_caller_is_if_that_is_visible() {
        let project = Path::new("/w");
        let home = Path::new("/h");
        let at = |current: &str| directory(Some(Path::new(current)), Some(project), home);
        assert_eq!(at("/w/sub"), Path::new("/w/sub"));
        assert_eq!(at("/other"), Path::new("/w"));
        assert_eq!(directory(None, None, home), home);
    }
}
