//! The program from outside. One test binary: a module per subject.

mod program;
