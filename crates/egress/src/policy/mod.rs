//! What a sandbox may reach: rules, and what comes of them.
//!
//! A [`Policy`] has layers (the user's, the project's, …), of which each may only narrow those
//! before it: the strictest word of all is the word. A layer decides by the most precise of its
//! [`Rule`]s that fits; among equally precise ones a refusal comes before a question, and that
//! before a permission. Where none fits, nothing may be reached.
//!
//! Precision is compared in this order: an address or a name before a smaller network before a
//! larger one, a name before a longer `*.` before a shorter one before `*`; a rule with ports before
//! one without; one with a path before one without, and a longer path before a shorter one; one
//! with methods before one without.

mod decide;
mod path;
mod preset;
mod rule;
mod shadow;

pub use decide::{Connection, Host, Layer, Policy, Reason, Refusal, Request, Verdict};
pub use path::{PathError, PathPattern, plain};
pub use preset::{PRESETS, Preset, preset};
pub use rule::{Action, Method, Ports, Protocol, Rule, RuleError, Target};
pub use shadow::{meet, shadowed};
