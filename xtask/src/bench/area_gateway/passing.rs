//! Bytes and connections that are passed through: TLS that is allowed, and not opened.

use super::{ATOLL, GIB, Group, RELAY, Results, Scene, compare};
use anyhow::Result;

pub(super) const DOWNLOAD: Group =
    Group { heading: "1 GiB received", budgets: &["gateway-download"], measure: download };
pub(super) const UPLOAD: Group =
    Group { heading: "1 GiB sent", budgets: &["gateway-upload"], measure: upload };
pub(super) const CONNECT: Group =
    Group { heading: "connection to first byte", budgets: &["gateway-connect"], measure: connect };
pub(super) const PING: Group =
    Group { heading: "each byte asked for, 16 at once", budgets: &["gateway-ping"], measure: ping };

/// The least of the relay's rate that ours may be, as a time.
const OF_BYTES: f64 = 1.0 / 0.9;
/// A connection is also read, decided about and looked up, and asks for one name: so a gross
/// loss is seen, and no more is promised.
const OF_CONNECTIONS: f64 = 4.0;
/// It takes long enough to need few of them.
const ROUNDS_MAX: u32 = 9;

fn through(
    scene: &Scene,
    count: u32,
    order: &str,
    budget: &'static str,
    limit: f64,
) -> Result<Results> {
    let results = scene.in_turn(count.min(ROUNDS_MAX), order)?;
    Ok((results, vec![compare(budget, ATOLL, RELAY, limit)]))
}

fn download(scene: &Scene, count: u32) -> Result<Results> {
    through(scene, count, &format!("download {GIB}"), "gateway-download", OF_BYTES)
}

fn upload(scene: &Scene, count: u32) -> Result<Results> {
    through(scene, count, &format!("upload {GIB}"), "gateway-upload", OF_BYTES)
}

fn connect(scene: &Scene, count: u32) -> Result<Results> {
    through(scene, count, "connect 200", "gateway-connect", OF_CONNECTIONS)
}

fn ping(scene: &Scene, count: u32) -> Result<Results> {
    through(scene, count, "ping 16 1000", "gateway-ping", OF_BYTES)
}
