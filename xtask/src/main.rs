//! The developer's one command.
fn main() {}
