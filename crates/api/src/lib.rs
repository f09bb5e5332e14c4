//! Wire types and pure rules: the policy document, what it comes to, and the
//! names that are protected whatever a policy says. No I/O here: callers read
//! files, resolve paths and look at the machine, and hand the results in.

#![warn(missing_docs)]

pub mod ignore;
pub mod policy;
pub mod protect;
