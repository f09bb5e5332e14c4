//! The table of keys: what may be written, and what it means.

/// Name of the project's own policy file. It may only narrow, and it cannot be
/// written from inside.
pub const POLICY_FILE: &str = "atoll.toml";

/// One key of a document.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The table it stands in.
    pub section: &'static str,
    /// Its name there.
    pub name: &'static str,
    /// What it takes, for people.
    pub takes: &'static str,
    /// What it does. The first word is lower case, as in a list.
    pub about: &'static str,
}

const fn key(
    section: &'static str,
    name: &'static str,
    takes: &'static str,
    about: &'static str,
) -> Key {
    Key { section, name, takes, about }
}

/// Every key, in the order in which they are shown.
pub const KEYS: &[Key] = &[
    key("workspace", "mode", "\"live\", \"review\" or \"none\"", "how the project is shown"),
    key(
        "workspace",
        "strict_ignore",
        "true or false",
        "judge every open of a live workspace against the hide rules",
    ),
    key(
        "workspace",
        "apply",
        "\"confirm\" or \"ask\"",
        "whether a review is applied when its risky files are confirmed, or when a person approves it",
    ),
    key("files", "read", "list of paths", "host paths shown read-only, absolute or from ~/"),
    key("files", "write", "list of paths", "host paths shown writable, absolute or from ~/"),
    key(
        "files",
        "hide",
        "list of patterns",
        "project paths that cannot be read, in gitignore grammar",
    ),
    key("files", "ignore_files", "list of names", "ignore files whose patterns hide"),
    key("protect", "allow", "list of patterns", "protected names that may be written all the same"),
    key("protect", "deny", "list of patterns", "more names that may not be written"),
    key(
        "exec",
        "ask",
        "list of patterns",
        "commands that run only when a person approves, as in \"git push *\"",
    ),
    key(
        "env",
        "pass",
        "list of names",
        "variables taken over from the caller; a name may end in *",
    ),
    key("env", "set", "table of strings", "variables set to a value"),
    key("limits", "memory", "size", "memory of all processes together"),
    key("limits", "disk", "size", "private space: HOME, /tmp and /dev/shm together"),
    key("limits", "pids", "number", "processes and threads at once"),
    key("limits", "cpus", "number", "share of processors, as in 1.5"),
    key("limits", "open_files", "number", "open files of one process"),
    key("limits", "time", "time", "wall time of the command, as in \"10m\""),
    key(
        "network",
        "mode",
        "\"none\" or \"rules\"",
        "nothing but loopback, or what the rules below allow",
    ),
    key("network", "presets", "list of names", "lists of hosts that are allowed"),
    key("network", "allow", "list of rules", "what may be reached"),
    key("network", "ask", "list of rules", "what a person is asked about"),
    key("network", "deny", "list of rules", "what is refused"),
    key("network", "explain", "true or false", "refused names lead to an answer with the reason"),
    key(
        "network",
        "proxy_variables",
        "true or false",
        "set HTTP_PROXY and its like inside, for programs that want them",
    ),
    key("network", "stand_in", "IPv4 network", "addresses that stand for names inside"),
    key("network", "ipv6", "true or false", "reach hosts over IPv6 too"),
    key("network", "upstream_proxy", "URL", "a proxy that the gateway itself goes through"),
    key("network", "requests_max", "number", "HTTP requests of a sandbox"),
    key("network", "bytes_max", "size", "bytes of a sandbox, both ways together"),
    key("network", "requests_per_host_max", "number", "HTTP requests to one host"),
    key("network", "bytes_per_host_max", "size", "bytes to and from one host"),
    key(
        "network",
        "secret",
        "tables by name",
        "where a stored secret is put into requests, or that it is a file inside",
    ),
    key("tier", "isolation", "\"container\"", "how strongly the command is isolated"),
    key("kernel", "ptrace", "true or false", "debuggers may trace their own children"),
    key("kernel", "nested_userns", "true or false", "user namespaces may be made inside"),
    key("root", "image", "\"host\" or a path", "the root file system"),
];

/// The tables, in order, each once.
pub(super) fn sections() -> impl Iterator<Item = &'static str> {
    let mut last = "";
    KEYS.iter().map(|key| key.section).filter(move |section| {
        let is_new = *section != last;
        last = section;
        is_new
    })
}
