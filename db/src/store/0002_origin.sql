-- Schema 2: which row of which file an imported choice came from. Words and meanings: docs/store.md.

-- One row an imported file and header, so that a choice stores no more than its own cells.
CREATE TABLE imported_file (
    id          INTEGER PRIMARY KEY,
    file        TEXT NOT NULL,
    file_hash   TEXT NOT NULL,
    format      TEXT NOT NULL,
    imported_at TEXT NOT NULL,
    columns     TEXT NOT NULL CHECK (json_valid(columns)),
    UNIQUE (file_hash, file, format, imported_at, columns)
) STRICT;

-- NULL in all three: a sweep made the choice here.
ALTER TABLE choice ADD COLUMN imported_file INTEGER REFERENCES imported_file;
ALTER TABLE choice ADD COLUMN imported_line INTEGER CHECK (imported_line >= 0);
ALTER TABLE choice ADD COLUMN imported_cells TEXT CHECK (json_valid(imported_cells));
