//! PID 1 in the sandbox: starts the workload, reaps, passes signals on, and
//! tells the launcher how it ended.
//!
//! A guest lives in one of two ways. Under `atoll run` it starts one command, tells
//! the launcher how it ended, and ends: [`init`] is that life, [`message`] all
//! that is said in it. In a sandbox that outlives its commands it waits for
//! connections and serves an operation on each: [`serve`]. What is asked about
//! [`files`] it answers over a [`channel`], in a process of its own for each
//! question. [`workload`] starts a program in either life.

pub mod channel;
pub mod command;
pub mod files;
pub mod init;
pub mod message;
pub mod pty;
pub mod serve;
pub mod workload;
