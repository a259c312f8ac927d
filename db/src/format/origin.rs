//! Where rows come from: one of these a file, one [`Origin`] a row.

use std::path::Path;
use std::sync::Arc;

use super::{Format, ReadOptions};
use crate::choice::Origin;

/// Makes the origins of one file's rows.
#[derive(Clone, Debug)]
pub(crate) struct Origins {
    file: String,
    file_hash: String,
    format: String,
    imported_at: String,
}

impl Origins {
    /// For the file of these bytes; `None` where the caller does not want origins, so that nothing is spent on them.
    pub(crate) fn of(file: &Path, bytes: &[u8], format: Format, options: &ReadOptions) -> Option<Origins> {
        options.keep_origin.then(|| Origins {
            file: file.display().to_string(),
            file_hash: blake3::hash(bytes).to_hex().to_string(),
            format: format.word(),
            imported_at: options.imported_at.clone(),
        })
    }

    /// The origin of the row at `line` (from 1; 0 where the format has no lines), with its cells as they were spelled.
    pub(crate) fn at(&self, line: u64, cells: Vec<(String, String)>) -> Arc<Origin> {
        Arc::new(Origin {
            file: self.file.clone(),
            line,
            file_hash: self.file_hash.clone(),
            format: self.format.clone(),
            imported_at: self.imported_at.clone(),
            cells,
        })
    }
}
