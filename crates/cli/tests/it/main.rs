//! The program from outside. One test binary: a module per subject.

#[cfg(test)]
mod doctor;
// The attribute tells clippy that helpers are tests too.
#[cfg(test)]
mod policy;
mod program;
#[cfg(test)]
mod readme;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod review;
#[cfg(test)]
mod run;
#[cfg(test)]
mod supervise;
