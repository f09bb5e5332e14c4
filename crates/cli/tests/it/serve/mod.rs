//! `atoll serve` from outside, by root and by an ordinary user.

mod ending;
mod execs;
mod limits;
mod log;
mod names;
mod places;
mod preview;
pub(crate) mod support;
mod tcp;
mod work;

use super::each;
use support::{Answer, Served};
