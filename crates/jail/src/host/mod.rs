//! The `host` image: what of this machine the workload sees.
//!
//! [`system`] lists the directories that programs are installed in, [`etc`]
//! puts an `/etc` together, [`image`] shows another root file system instead of
//! the first, [`home`] finds toolchains under a hidden home
//! directory, [`trust`] adds certificates of authorities. All of it reads the host once and gives entries of a view.

mod etc;
mod home;
mod image;
mod java;
mod keystore;
mod names;
mod secret;
mod seen;
mod system;
mod trust;
mod watches;

pub use etc::{Account, InEtc, etc, etc_additions, in_etc};
pub use home::{CACHE_DIRECTORIES, home};
pub use image::{ImageError, image};
pub use names::{Made, Names, own_names};
pub use secret::secret_file;
pub use seen::Stack;
pub use system::{own, places, system};
pub use trust::{BUNDLES, TRUST, Trust, Trusted, trust};
pub use watches::watches;
