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
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reference page"))]
    pub(crate) about: &'static str,
}

/// Declares variables, and the list of them that the reference page shows.
macro_rules! variables {
    ($($name:ident: $about:literal;)*) => {
        $(pub(crate) const $name: Variable = Variable { name: stringify!($name), about: $about };)*
        #[cfg(test)]
        pub(crate) const ALL: &[Variable] = &[$($name),*];
    };
}

variables! {
    HOME: "the home directory that is hidden; without it the entry of the user in /etc/passwd counts";
    SHELL: "the login shell that the account inside gets; else /bin/sh";
    USER: "the account's name inside, where the user is the caller; else user";
    XDG_CACHE_HOME: "where the private package caches of projects lie, below atoll/; else ~/.cache";
    XDG_CONFIG_HOME: "where the user's policy lies, as atoll/config.toml, and git's settings; else ~/.config. Only an absolute path counts";
    XDG_STATE_HOME: "where review sessions are kept, in atoll/sessions, and what `atoll serve` keeps, in atoll/server, unless it is root's; else ~/.local/state. Only an absolute path counts";
    XDG_RUNTIME_DIR: "where `atoll serve` listens, at atoll/atoll.sock, unless it is root's; else in its state directory. Only an absolute path counts";
    ATOLL_HOST: "the server that commands ask, as unix:///PATH or http://HOST:PORT; else the socket of the caller's own";
    ATOLL_API_KEY: "the key for it, which is needed over TCP";
    ATOLL_DNS: "DNS servers that look up what sandboxes reach, as ADDRESS or ADDRESS:PORT with commas between; else those of the system";
    ATOLL_UPSTREAM_PROXY: "a proxy through which sandboxes of `atoll serve` reach what they may, as http://HOST:PORT or socks5://HOST:PORT, with USER:PASSWORD@ before the host if need be, where --upstream-proxy names none";
    ATOLL_STATE: "the state directory of `atoll serve` and of secrets, where --state names none. Only an absolute path counts";
    ATOLL_START_SERVER: "1 has commands start a private server if none runs, as --start-server does";
    SSL_CERT_FILE: "certificates of the authorities by which hosts are known that sandboxes reach, and which programs inside trust as well; else the system's own";
    HTTPS_PROXY: "the proxy by which `atoll serve` reaches registries of images and stores of archives, as http://HOST:PORT or socks5://HOST:PORT";
    HTTP_PROXY: "the same for those that are spoken to without TLS";
    NO_PROXY: "hosts that `atoll serve` reaches without these proxies, with commas between; a name stands for all below it";
    AWS_ACCESS_KEY_ID: "who `atoll serve` is to a store of archives that speaks S3";
    AWS_SECRET_ACCESS_KEY: "what proves that";
    AWS_SESSION_TOKEN: "what goes along with credentials that are valid for a while";
    AWS_REGION: "where the bucket of archives is; else us-east-1";
    AWS_DEFAULT_REGION: "the same, where AWS_REGION is not set";
    TERM: "what `atoll exec -t` and `atoll shell` tell the command about the terminal; `atoll run` asks without any sequences where it is `dumb`";
    NOTIFY_SOCKET: "whom `atoll serve` tells that it is ready, as systemd asks for";
    PATH: "where `atoll doctor` looks for runsc and criu";
    NO_COLOR: "no colours, if set";
    REMOTE_CONTAINERS: "set by editors in their development containers; `atoll doctor` then tells their settings";
    CODESPACES: "as REMOTE_CONTAINERS, in GitHub Codespaces";
}

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
