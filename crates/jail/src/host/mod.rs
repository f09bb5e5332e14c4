//! The `host` image: what of this machine the workload sees.
//!
//! [`system`] lists the directories that programs are installed in, [`etc`]
//! puts an `/etc` together, [`home`] finds toolchains under a hidden home
//! directory. All of it reads the host once and gives entries of a view.

mod etc;
mod home;
mod system;

pub use etc::{Account, InEtc, etc, in_etc};
pub use home::{CACHE_DIRECTORIES, home};
pub use system::{places, system};
