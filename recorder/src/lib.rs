//! Records which GEMMs a process runs, and how often, at a cost of nanoseconds.
//!
//! An engine asks once for [`Recorder::global`], and if it is there, calls [`Recorder::record`] for every GEMM it runs.
//!
//! | variable | meaning |
//! |---|---|
//! | `TGEMM_TUNE=1` (or `AITER_TUNE_GEMM=1`) | record; read once, when the global recorder is first asked for |
//! | `TGEMM_UNTUNED` | where to: a name that ends in `.csv` is one file that all processes share, anything else is a folder with one file a process; default: the folder `tgemm-untuned` in the working directory |
//!
//! What is promised:
//! - A problem seen before takes no lock, no allocation and no system call.
//! - A new problem is in the file when [`Recorder::record`] returns. Its count follows whenever it doubles, and exactly
//!   at [`Recorder::flush`], on drop and at a normal exit of the process. Each line carries what was added since the
//!   last one of that problem: readers sum (`tgemm_db::recording::merge`). So SIGKILL loses no problem and at most half
//!   of a count.
//! - The host is never harmed: no thread, timer or signal handler is put into it; a folder that cannot be written to, or
//!   a full disk, is one line on stderr; counting goes on in memory and writing is tried again with the next line.
//! - A forked child counts from zero into its own lines, so nothing is lost and nothing counted twice. Children that end
//!   by `_exit` (Python's multiprocessing) write no last line, as if killed.
//!
//! | module | holds |
//! |---|---|
//! | `asked` | a problem and how it was asked for: what one line stands for |
//! | `seen` | the lock-free set of seen problems and their counts |
//! | `numbers` | a number for each entry |
//! | `sink` | the file: its name, its header, whole lines or none |
//! | `process` | fork and exit of the host |
//! | `quiet` | writes that raise no signal in it |
//! | [`options`] | the variables |
//! | [`counters`] | what became of calls, in a file that others may read meanwhile |

mod asked;
pub mod counters;
mod numbers;
pub mod options;
mod process;
mod quiet;
mod recorder;
mod seen;
mod sink;

pub use asked::{Asked, LibraryFile};
pub use options::{RecorderOptions, Target};
pub use process::{forks, on_fork, warn, without_forks};
pub use recorder::Recorder;
pub use seen::{Entry, PROBLEMS_MAX};
