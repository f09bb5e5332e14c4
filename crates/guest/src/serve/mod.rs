//! The life of PID 1 in a sandbox that outlives its commands: waits for
//! connections, and serves the operation that each of them asks for.
//!
//! One thread in one poll(2) (`server`; what each request does is in
//! `operations`) runs commands (`exec`, started by
//! `launch`), keeps what they print (`kept`) and lets connections
//! (`connection`) follow it. Nothing that a command or a client does makes it
//! wait: every descriptor is non-blocking, every queue has a limit. What may
//! wait, such as reading files, is done by a process of its own for each connection
//! (`worker`).
//!
//! A command leads a session of its own (that of setsid(2); the sessions of execs
//! are in `shell`). Everything that it starts and that does
//! not leave that session ends with it where it is made to end (`session`);
//! what it leaves behind when it ends by itself goes on.

mod connection;
mod exec;
mod kept;
mod launch;
mod operations;
mod ports;
mod server;
mod session;
mod shell;
mod table;
mod time;
mod worker;

pub use launch::{Base, Walls};
pub use server::{Limits, Server};
