-- Schema 1. Words and meanings: docs/store.md.
-- A REAL that is not a number is NULL (SQLite has no NaN). Texts with a closed vocabulary hold the words of the types.

CREATE TABLE run (
    id           INTEGER PRIMARY KEY,
    started_at   TEXT NOT NULL,
    tool_version TEXT NOT NULL,
    command_line TEXT NOT NULL,
    options      TEXT NOT NULL CHECK (json_valid(options)),
    ended_at     TEXT,
    ended        TEXT
) STRICT;

-- Identity is the canonical JSON text itself: exact, and unique without trusting a hash. The device columns are
-- computed from it, so that they cannot disagree. The cache size is beside it, because it is not identity.
CREATE TABLE environment (
    id                     INTEGER PRIMARY KEY,
    identity               TEXT NOT NULL UNIQUE CHECK (json_valid(identity)),
    last_level_cache_bytes INTEGER NOT NULL CHECK (last_level_cache_bytes >= 0),
    vendor                 TEXT    AS (identity ->> '$.device.vendor') VIRTUAL,
    arch                   TEXT    AS (identity ->> '$.device.arch') VIRTUAL,
    compute_units          INTEGER AS (identity ->> '$.device.compute_units') VIRTUAL,
    memory_gib             INTEGER AS (identity ->> '$.device.memory_gib') VIRTUAL,
    chip_id                INTEGER AS (identity ->> '$.device.chip_id') VIRTUAL,
    partition_mode         TEXT    AS (identity ->> '$.device.partition') VIRTUAL,
    driver                 TEXT    AS (identity ->> '$.driver') VIRTUAL
) STRICT;

CREATE TABLE build (
    id       INTEGER PRIMARY KEY,
    library  TEXT NOT NULL,
    version  TEXT NOT NULL,
    revision TEXT NOT NULL,
    UNIQUE (library, version, revision)
) STRICT;

-- Identity only. What a solution needs and promises may depend on the problem, so trials and choices hold that.
CREATE TABLE solution (
    id             INTEGER PRIMARY KEY,
    build          INTEGER NOT NULL REFERENCES build,
    solution_index INTEGER NOT NULL,
    name           TEXT NOT NULL,
    params         TEXT NOT NULL,
    weight_form    TEXT NOT NULL,
    UNIQUE (build, solution_index, name, params, weight_form)
) STRICT;

-- The key is the problem; m, n, k are for people's queries.
CREATE TABLE problem (
    id  INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    m   INTEGER NOT NULL CHECK (m > 0),
    n   INTEGER NOT NULL CHECK (n > 0),
    k   INTEGER NOT NULL CHECK (k > 0)
) STRICT;

CREATE TABLE source (
    id      INTEGER PRIMARY KEY,
    name    TEXT NOT NULL UNIQUE,
    read_at TEXT NOT NULL
) STRICT;

CREATE TABLE recording (
    id                  INTEGER PRIMARY KEY,
    source              INTEGER NOT NULL REFERENCES source ON DELETE CASCADE,
    problem             INTEGER NOT NULL REFERENCES problem,
    via                 TEXT NOT NULL,
    count               INTEGER NOT NULL CHECK (count >= 0),
    captured            INTEGER NOT NULL CHECK (captured IN (0, 1)),
    workspace_bytes_max INTEGER CHECK (workspace_bytes_max >= 0),
    library_file        TEXT NOT NULL,
    library_build       TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX recording_identity
    ON recording (source, problem, via, ifnull(workspace_bytes_max, -1), library_file, library_build);
CREATE INDEX recording_problem ON recording (problem);

-- total() adds in floating point: a sum of integers would raise an error where it overflows.
CREATE VIEW recorded AS
    SELECT problem.id AS problem, key, m, n, k, CAST(total(count) AS INTEGER) AS count, max(captured) AS captured
    FROM recording JOIN problem ON problem.id = recording.problem
    GROUP BY problem.id;

CREATE TABLE trial (
    id                   INTEGER PRIMARY KEY,
    problem              INTEGER NOT NULL REFERENCES problem,
    environment          INTEGER NOT NULL REFERENCES environment,
    solution             INTEGER NOT NULL REFERENCES solution,
    run                  INTEGER NOT NULL REFERENCES run,
    outcome              TEXT NOT NULL,
    detail               TEXT NOT NULL,
    baseline_via         TEXT,
    finalist             INTEGER NOT NULL CHECK (finalist IN (0, 1)),
    workspace_bytes      INTEGER NOT NULL CHECK (workspace_bytes >= 0),
    numerics             TEXT NOT NULL,
    deterministic        INTEGER CHECK (deterministic IN (0, 1)),
    graph_safe           INTEGER CHECK (graph_safe IN (0, 1)),
    error_checked        INTEGER CHECK (error_checked >= 0),
    error_max_over_bound REAL,
    error_max_relative   REAL,
    error_share_beyond   REAL,
    pack_us              REAL,
    median_us            REAL,
    UNIQUE (problem, environment, solution)
) STRICT;

CREATE TABLE sample (
    trial    INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
    position INTEGER NOT NULL CHECK (position >= 0),
    phase    TEXT NOT NULL,
    block    INTEGER NOT NULL CHECK (block >= 0),
    time_us  REAL,
    PRIMARY KEY (trial, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE constraints (
    id       INTEGER PRIMARY KEY,
    identity TEXT NOT NULL UNIQUE CHECK (json_valid(identity))
) STRICT;

CREATE TABLE choice (
    id               INTEGER PRIMARY KEY,
    problem          INTEGER NOT NULL REFERENCES problem,
    environment      INTEGER NOT NULL REFERENCES environment,
    constraints      INTEGER NOT NULL REFERENCES constraints,
    run              INTEGER NOT NULL REFERENCES run,
    solution         INTEGER NOT NULL REFERENCES solution,
    workspace_bytes  INTEGER NOT NULL CHECK (workspace_bytes >= 0),
    numerics         TEXT NOT NULL,
    deterministic    INTEGER CHECK (deterministic IN (0, 1)),
    graph_safe       INTEGER CHECK (graph_safe IN (0, 1)),
    time_us          REAL,
    ratio_estimate   REAL,
    ratio_low        REAL,
    ratio_high       REAL,
    verdict          TEXT NOT NULL,
    error_over_bound REAL,
    err_ratio        REAL,
    pack_us          REAL,
    count            INTEGER NOT NULL CHECK (count >= 0),
    tuned_at         TEXT NOT NULL,
    UNIQUE (problem, environment, constraints)
) STRICT;

CREATE TABLE choice_baseline (
    choice          INTEGER NOT NULL REFERENCES choice ON DELETE CASCADE,
    position        INTEGER NOT NULL CHECK (position >= 0),
    via             TEXT NOT NULL,
    solution        INTEGER NOT NULL REFERENCES solution,
    workspace_bytes INTEGER NOT NULL CHECK (workspace_bytes >= 0),
    numerics        TEXT NOT NULL,
    deterministic   INTEGER CHECK (deterministic IN (0, 1)),
    graph_safe      INTEGER CHECK (graph_safe IN (0, 1)),
    time_us         REAL,
    PRIMARY KEY (choice, position)
) STRICT, WITHOUT ROWID;
