//! Images as others describe them: names, and the documents of OCI and Docker.
//!
//! All of it is read from elsewhere, so everything has a limit, and what is not understood is
//! refused by its name.

mod bundle;
mod document;
mod reference;

pub use bundle::{Bundle, BundleError, Chosen};
pub use document::{Config, Index, Saved};
pub use document::{
    Descriptor, DocumentError, Manifest, Platform, Settings, Told, parse_config, parse_manifest,
    parse_saved,
};
pub use reference::{Reference, ReferenceError, Source};

/// Most bytes of a document.
pub const DOCUMENT_BYTES_MAX: u64 = 4 << 20;

/// Most layers of an image: an overlay takes some hundreds, and each look-up asks all of them.
pub const LAYERS_MAX: usize = 128;
