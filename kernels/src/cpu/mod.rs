//! The host's processors.
