//! `atoll serve` from outside, by root and by an ordinary user.

mod ending;
mod execs;
mod hostile;
mod limits;
mod log;
mod names;
mod places;
mod preview;
mod severed;
pub(crate) mod support;
mod tcp;
mod vanish;
mod wire;
mod work;

use super::each;
use support::{Answer, Served};
