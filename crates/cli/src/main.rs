//! The `atoll` program: everything is in the library.
#![no_main]

atoll_sys::main!(|| u8::from(atoll_cli::main()));
