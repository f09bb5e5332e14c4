//! What a sandbox with the host's root sees of the system, for explaining. The one
//! place for it until the jail's own plan is asked.

/// Shown whole and read-only.
pub(crate) const SYSTEM: &[&str] =
    &["/bin", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/opt", "/sbin", "/snap", "/usr"];
