//! The `atoll` program.
fn main() {}
