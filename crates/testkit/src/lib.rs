//! Helpers for tests; never linked into a program that ships.
