//! The program from outside. One test binary: a module per subject.

#[cfg(test)]
mod doctor;
mod program;
