//! The engine as a whole, on a machine in memory.
