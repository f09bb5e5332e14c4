//! What a sandbox with the host's root sees of the system, for explaining. The one
//! place for it until the jail's own plan is asked.

/// Shown whole and read-only.
pub(crate) const SYSTEM: &[&str] =
    &["/bin", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/opt", "/sbin", "/snap", "/usr"];

/// Made for each sandbox; nothing of the host's is in it.
pub(crate) const PRIVATE: &[&str] = &["/dev", "/proc", "/sys", "/tmp", "/run", "/var/tmp"];

/// Toolchains in the home directory that are shown read-only at the same place.
pub(crate) const HOME_TOOLCHAINS: &[&str] = &[
    ".asdf",
    ".bun",
    ".cargo/bin",
    ".deno",
    ".local/bin",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pnpm",
    ".local/share/uv",
    ".nvm",
    ".pyenv",
    ".rustup",
    ".sdkman",
    ".volta",
    "go/bin",
];
