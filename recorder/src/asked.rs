//! A problem together with how it was asked for: what one line of a recording stands for.

use tgemm_db::{Follows, Problem, Recorded, Via};

/// A library file that calls went to.
#[derive(Debug, PartialEq, Eq)]
pub struct LibraryFile {
    /// Its path.
    pub file: String,
    /// Its version, as [`tgemm_db::Build::version`] has it; empty where it was not to be had.
    pub version: String,
}

/// A problem as it was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// What was asked for.
    pub problem: Problem,
    /// By which API.
    pub via: Via,
    /// The most workspace that the caller gave; `None` where it did not say.
    pub workspace_bytes_max: Option<u64>,
    /// The library that was called, if that is known; one and the same reference for each file.
    pub library: Option<&'static LibraryFile>,
    /// What came before, of calls in a graph.
    pub follows: Option<Follows>,
}

impl Asked {
    /// `problem` by `via`, of which nothing more is known.
    pub fn new(problem: Problem, via: Via) -> Asked {
        Asked { problem, via, workspace_bytes_max: None, library: None, follows: None }
    }

    /// The row of a recording that says so.
    pub fn row(&self, count: u64, captured: bool) -> Recorded {
        let library = |of: fn(&LibraryFile) -> &String| self.library.map(of).cloned().unwrap_or_default();
        Recorded {
            count,
            via: self.via,
            captured,
            follows: self.follows,
            workspace_bytes_max: self.workspace_bytes_max,
            library_file: library(|library| &library.file),
            library_build: library(|library| &library.version),
            ..Recorded::bare(self.problem)
        }
    }
}

impl PartialEq for Asked {
    #[inline]
    fn eq(&self, other: &Asked) -> bool {
        let place = |asked: &Asked| asked.library.map_or(std::ptr::null(), std::ptr::from_ref);
        self.problem == other.problem
            && self.via == other.via
            && self.workspace_bytes_max == other.workspace_bytes_max
            && place(self) == place(other)
            && self.follows == other.follows
    }
}

impl Eq for Asked {}
