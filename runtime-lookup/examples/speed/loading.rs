//! How long it takes to have a table ready, from the open to the first lookup.

use std::error::Error;
use std::path::PathBuf;

use tgemm_db::format::tuned;
use tgemm_lookup::Database;

use crate::clock::each_ms;
use crate::scratch::Scratch;
use crate::table::{self, ROWS};

const TIMES: usize = 21;

fn files(scratch: &Scratch) -> Result<Vec<(&'static str, PathBuf)>, Box<dyn Error>> {
    let [theirs, ours] = ["aiter.csv", "tuned.csv"].map(|name| scratch.path(name));
    std::fs::write(&theirs, table::aiter_text(ROWS))?;
    tuned::write(&ours, &table::choices(ROWS)?)?;
    #[allow(unused_mut)] // Without SQLite these are all.
    let mut files = vec![("39,130 rows of AITER's CSV", theirs), ("39,130 rows of our CSV", ours)];
    #[cfg(feature = "sqlite")]
    {
        let store = scratch.path("t.sqlite");
        table::write_store(&store)?;
        files.push(("100,000 choices of SQLite", store));
    }
    Ok(files)
}

/// All kinds of files, or those whose name holds `only`.
pub fn print(scratch: &Scratch, only: &str) -> Result<(), Box<dyn Error>> {
    println!("\n{:<44} {:>8} {:>8}", "loading, ms", "median", "least");
    let here = table::here();
    for (name, path) in files(scratch)?.into_iter().filter(|(name, _)| name.contains(only)) {
        let paths = [path];
        let (database, report) = Database::open(&paths, &here);
        if !report.is_clean() || database.is_empty() {
            return Err(format!("{report}").into());
        }
        let (median, least) = each_ms(TIMES, || Database::open(&paths, &here));
        println!("{name:<44} {median:>8.1} {least:>8.1}");
    }
    if !cfg!(feature = "sqlite") {
        println!("(built without the feature `sqlite`: databases are not read)");
    }
    Ok(())
}
