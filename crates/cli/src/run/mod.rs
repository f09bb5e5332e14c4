//! `atoll run`: from a policy to a command that runs in a jail, and how it went.
//!
//! [`caller`] says who asks and whom the workload becomes, [`environment`]
//! what it is started with, [`view`] what it sees, [`network`] and [`secrets`] what it
//! reaches and with what; [`prepare`] puts
//! these together before anything is made, [`launch`] makes the jail and
//! [`inside`] is the half of it that runs as PID 1. [`control`] talks with that
//! half, [`gate`] asks before there is one, [`report`] says how it went, [`notes`] what the command did not get,
//! [`foreign`] whose files may have been in its way and [`unmade`] why it could not
//! begin.

mod author;
mod cache;
mod caller;
mod control;
mod environment;
mod foreign;
mod gate;
mod hints;
mod image;
mod inside;
mod launch;
mod masker;
mod network;
mod notes;
mod outline;
mod own;
mod prepare;
mod protect;
mod read;
mod refusal;
mod report;
mod repository;
mod review;
mod secrets;
mod supervisor;
mod unmade;
mod view;

pub(crate) use gate::pass;
pub(crate) use launch::{Request, run};
pub(crate) use outline::{Outline, outline};
pub(crate) use refusal::escaped;
pub(crate) use unmade::explained;
