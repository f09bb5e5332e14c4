//! What the operator of a server decides.

use crate::audit;
use crate::budgets::Rule;
use crate::lifecycle::{Caps, Defaults};
use crate::templates;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of an engine.
#[derive(Debug, Clone)]
pub struct Config {
    /// Most sandboxes on this host, in every state, until nothing is left of them.
    pub sandboxes_max: usize,
    /// Most bytes that the records take; old events make room for new ones before.
    pub records_bytes_max: u64,
    /// Limits of the audit log.
    pub audit: audit::Limits,
    /// What building templates may take.
    pub templates: templates::Limits,
    /// The most that requests may ask for.
    pub caps: Caps,
    /// What holds where requests say nothing.
    pub defaults: Defaults,
    /// Budgets that sandboxes have together, each with a name of its own.
    pub budgets: Vec<Rule>,
    /// Folders of the host that may be volumes, with all that is in them: absolute paths without
    /// symbolic links.
    pub host_folders: Vec<PathBuf>,
    /// How long a host may take to make a sandbox and start it, its image unpacked included.
    pub create_timeout: Duration,
    /// How long its workspace may take to come in.
    pub workspace_timeout: Duration,
    /// How long processes that were asked to end have before they are killed.
    pub stop_grace: Duration,
    /// How long a command that has to be approved waits for that.
    pub approval_hold: Duration,
    /// Longest that anything may hold a sandbox awake.
    pub hold_max: Duration,
    /// How long a service holds its sandbox awake after its start, and after other work.
    pub service_hold_max: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            sandboxes_max: 1000,
            records_bytes_max: 1 << 30,
            audit: audit::Limits::default(),
            templates: templates::Limits::default(),
            caps: Caps::default(),
            defaults: Defaults::default(),
            budgets: Vec::new(),
            host_folders: Vec::new(),
            create_timeout: Duration::from_secs(600),
            workspace_timeout: Duration::from_secs(3600),
            stop_grace: Duration::from_secs(10),
            approval_hold: Duration::from_secs(30),
            hold_max: Duration::from_secs(24 * 3600),
            service_hold_max: Duration::from_secs(3600),
        }
    }
}
