//! The program from outside.

// The attribute tells clippy that helpers are tests too.
#[cfg(test)]
mod orders;
