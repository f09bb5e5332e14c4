//! The jail on a real kernel.

// The attribute tells clippy that helpers are tests too.
#[cfg(test)]
mod cgroup;
#[cfg(test)]
mod judge;
#[cfg(test)]
mod overlay;

/// Says that a part is not tested here, where `cargo xtask ci` looks for it too.
#[cfg(test)]
fn skip(name: &str, reason: &str) {
    let line = format!("SKIPPED {name}: {reason}\n");
    eprint!("{line}");
    if let Some(folder) = std::env::var_os("ATOLL_TEST_SKIPS") {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(std::path::Path::new(&folder).join(format!("{name}.txt")), line).unwrap();
    }
}
