//! PID 1 in the sandbox.
