//! PID 1 in the sandbox: starts the workload, reaps, passes signals on, and
//! tells the launcher how it ended.
//!
//! [`message`] is all that PID 1 ever says; [`init`] is its life; [`workload`]
//! starts one program. [`files`] answers what is asked about files, over a
//! [`channel`], in a process of its own for each question.

pub mod channel;
pub mod files;
pub mod init;
pub mod message;
pub mod workload;
