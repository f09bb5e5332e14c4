//! The resident process alone. For tests.

use rustix::stdio::stdin;
use std::os::fd::AsFd as _;

fn main() -> anyhow::Result<()> {
    let orders = stdin().as_fd().try_clone_to_owned()?;
    atoll_guest::init::leave_standard_descriptors();
    atoll_spawner::resident::run(&orders)?;
    Ok(())
}
