//! The policy: what a sandbox may see, write, use and reach.
//!
//! A [`Document`] is one file (or the flags of one command) as it was written,
//! every value with its line. [`Layer`]s are documents with a level of trust and
//! with their paths resolved; [`merge()`] folds them into the [`EffectivePolicy`],
//! where every value still knows where it came from.
//!
//! ```text
//! built in < user file < --policy FILE < project file (may only narrow) < flags
//! ```
//!
//! What the project's own file may do follows from what kind a key is:
//!
//! - **Grants** (`files.read`, `files.write`, `protect.allow`, `env.pass`): the list
//!   names what is *kept*. Each entry must lie within what the user granted.
//! - **Restrictions** (`files.hide`, `files.ignore_files`, `protect.deny`, `exec.ask`,
//!   `network.ask`, `network.deny`): the list is *added*. A pattern that takes something back (`!x`) is refused.
//! - **Rules** (`network.allow`, `network.presets`): what both the user and the project allow is
//!   allowed.
//! - **Limits**: equal or lower.
//! - **Switches** (`workspace.*`, `kernel.*`, `network.mode`, `network.explain`,
//!   `network.ipv6`): equal or stricter.
//! - **Choices** (`env.set`, `root.image`, `tier.isolation`, `network.stand_in`,
//!   `network.upstream_proxy`, `network.proxy_variables`): equal only.
//! - **Secrets** (`network.secret`): the user's alone.

mod document;
mod effective;
mod entries;
mod keys;
mod merge;
mod network;
mod parse;
mod pattern;
mod value;

pub use document::{
    Document, EnvSection, ExecSection, FilesSection, KernelSection, LimitsSection, List, Located,
    Place, ProtectSection, RootSection, TierSection, WorkspaceSection,
};
pub use effective::{
    Budgets, EffectivePolicy, Env, Files, Grant, Kernel, Level, Limits, Network, Origin,
    ProjectRules, ProtectRule, Sourced, Verdict, Workspace,
};
pub use entries::{Entry, EntryValue};
pub use keys::{KEYS, Key, POLICY_FILE};
pub use merge::{
    Host, Layer, MergeError, MergeErrorKind, Merged, Resolution, Warning, WarningKind, merge,
    write_refusal,
};
pub use network::{
    BudgetsSection, NetworkMode, NetworkRule, NetworkSection, RuleList, SECRET_FILES,
    SecretBinding, SecretUse, UpstreamProxy, is_place_of_secrets,
};
pub(crate) use parse::{Lines, kind_of, line_at};
pub use parse::{MAX_DOCUMENT_BYTES, ParseError, ParseErrorKind, ParseErrors, parse};
pub(crate) use pattern::component_matches;
pub use pattern::{EnvPattern, PathPattern, PatternError};
pub use value::{
    ApplyMode, Bytes, Cpus, Image, Isolation, Limit, ValueError, WorkspaceMode, nearest,
    parse_duration,
};
