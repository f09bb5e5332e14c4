//! Wire types: the policy document, error codes. No I/O.
