//! Where rows come from: one of these a file, one [`Origin`] a row.

use std::path::Path;
use std::sync::Arc;

use super::{Format, ReadOptions};
use crate::origin::{Origin, Shared, Source};

/// Makes the origins of one file's rows.
#[derive(Clone, Debug)]
pub(crate) struct Origins {
    /// Without columns.
    file: Source,
    shared: Shared,
}

impl Origins {
    /// For the file of these bytes; `None` where the caller does not want origins, so that nothing is spent on them.
    pub(crate) fn of(file: &Path, bytes: &[u8], format: Format, options: &ReadOptions) -> Option<Origins> {
        let file = || Source {
            file: file.display().to_string(),
            file_hash: blake3::hash(bytes).to_hex().to_string(),
            format: format.word(),
            imported_at: options.imported_at.clone(),
            columns: Vec::new(),
        };
        options.keep_origin.then(|| Origins { file: file(), shared: Shared::default() })
    }

    /// The origin of the row at `line` (from 1; 0 where the format has no lines), with its cells as they were spelled.
    pub(crate) fn at<'c, I>(&self, line: u64, cells: I) -> Arc<Origin>
    where
        I: IntoIterator<Item = (&'c str, &'c str), IntoIter: Clone>,
    {
        let cells = cells.into_iter();
        let names = cells.clone().map(|(name, _)| name);
        let source = self.shared.source(
            |source| source.columns.iter().map(String::as_str).eq(names.clone()),
            || Source { columns: names.clone().map(str::to_owned).collect(), ..self.file.clone() },
        );
        Arc::new(Origin::new(source, line, cells.map(|(_, cell)| cell)))
    }
}
