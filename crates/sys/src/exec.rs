//! Running another program in place of the calling one.

use std::ffi::{CStr, CString};
use std::io;

/// Arguments and environment, laid out as execve(2) takes them.
#[derive(Debug)]
pub struct Arguments {
    _strings: Vec<CString>,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
}

impl Arguments {
    /// Lays the strings out once, so that nothing is allocated between a fork
    /// and the call.
    #[must_use]
    pub fn new(argv: Vec<CString>, environment: Vec<CString>) -> Self {
        let pointers = |strings: &[CString]| {
            let mut list: Vec<_> = strings.iter().map(|text| text.as_ptr()).collect();
            list.push(std::ptr::null());
            list
        };
        let (argv_list, envp) = (pointers(&argv), pointers(&environment));
        let strings = argv.into_iter().chain(environment).collect();
        Self { _strings: strings, argv: argv_list, envp }
    }
}

/// Runs `program`; returns only the error of a failure.
///
/// Source: execve(2).
#[must_use]
pub fn run(program: &CStr, arguments: &Arguments) -> io::Error {
    // SAFETY: both lists are NULL-terminated and point to C strings that
    // `arguments` owns; moving a CString does not move its bytes.
    unsafe { libc::execve(program.as_ptr(), arguments.argv.as_ptr(), arguments.envp.as_ptr()) };
    io::Error::last_os_error()
}
