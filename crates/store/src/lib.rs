//! Layers, images, trees of files, the changes of a review workspace, secrets, and what is in archives.

pub mod apply;
pub mod archive;
pub mod catalog;
pub mod changes;
pub mod digest;
pub mod escape;
pub mod image;
pub mod import;
pub mod layer;
pub mod node;
pub mod oci;
pub mod pack;
pub mod risk;
pub mod room;
pub mod secret;
pub mod session;
pub mod tree;
pub mod view;

mod beneath;
mod content;
mod disk;
mod overlay;
mod remove;
mod shelf;
mod xattr;

pub use overlay::{Format, mark_copied};
pub use remove::remove;
