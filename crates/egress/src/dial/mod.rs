//! Reaching hosts for a sandbox: the name is looked up when a connection to it was allowed, and
//! the address that is judged is the one that is dialled.

mod connect;
mod lookup;
mod proxy;
mod route;
mod system;

pub use lookup::{LookupError, Lookups};
pub use route::{DialError, Route};
