//! A library with scripted costs.
