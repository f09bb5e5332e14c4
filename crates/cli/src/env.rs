//! Every environment variable that atoll itself reads. There is no other way to
//! read one, so the list is complete.
//!
//! What the *command* gets to see is another matter: the policy's `[env]` decides.

use std::ffi::OsString;
use std::path::PathBuf;

/// A variable that atoll reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variable {
    pub(crate) name: &'static str,
    /// What it does, for people.
    #[expect(dead_code, reason = "for the reference page, which is made from this list")]
    pub(crate) about: &'static str,
}

pub(crate) const HOME: Variable = Variable {
    name: "HOME",
    about: "the home directory that is hidden; without it the entry of the user in /etc/passwd counts",
};

pub(crate) const SHELL: Variable =
    Variable { name: "SHELL", about: "the login shell that the account inside gets; else /bin/sh" };

pub(crate) const USER: Variable = Variable {
    name: "USER",
    about: "the account's name inside, where the user is the caller; else user",
};

pub(crate) const XDG_CACHE_HOME: Variable = Variable {
    name: "XDG_CACHE_HOME",
    about: "where the private package caches of projects lie, below atoll/; else ~/.cache",
};

pub(crate) const XDG_CONFIG_HOME: Variable = Variable {
    name: "XDG_CONFIG_HOME",
    about: "where the user's policy lies, as atoll/config.toml; else ~/.config. Only an absolute path counts",
};

pub(crate) const XDG_STATE_HOME: Variable = Variable {
    name: "XDG_STATE_HOME",
    about: "where review sessions are kept, in atoll/sessions; else ~/.local/state. Only an absolute path counts",
};

pub(crate) const PATH: Variable =
    Variable { name: "PATH", about: "where `atoll doctor` looks for runsc and criu" };

pub(crate) const NO_COLOR: Variable = Variable { name: "NO_COLOR", about: "no colours, if set" };

pub(crate) const REMOTE_CONTAINERS: Variable = Variable {
    name: "REMOTE_CONTAINERS",
    about: "set by editors in their development containers; `atoll doctor` then tells their settings",
};

pub(crate) const CODESPACES: Variable =
    Variable { name: "CODESPACES", about: "as REMOTE_CONTAINERS, in GitHub Codespaces" };

impl Variable {
    /// Its value; an empty one counts as not set.
    pub(crate) fn get(self) -> Option<OsString> {
        std::env::var_os(self.name).filter(|value| !value.is_empty())
    }

    /// Its value as an absolute path; a relative one counts as not set, as the XDG
    /// base directory specification asks.
    pub(crate) fn path(self) -> Option<PathBuf> {
        self.get().map(PathBuf::from).filter(|path| path.is_absolute())
    }
}
