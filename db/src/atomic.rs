//! Whole-file writes that are never seen half done.
