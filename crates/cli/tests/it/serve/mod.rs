//! `atoll serve` from outside, by root and by an ordinary user.

mod creating;
mod ending;
mod execs;
mod hostile;
mod images;
mod inside;
mod limits;
mod links;
mod log;
mod many;
mod names;
mod network;
mod network_proxy;
mod network_secrets;
mod network_trust;
mod places;
mod preview;
mod settings;
mod severed;
mod snapshots;
mod streams;
pub(crate) mod support;
pub(crate) mod tcp;
mod vanish;
mod waking;
mod wire;
mod work;

use super::each;
use support::{Answer, Served};
