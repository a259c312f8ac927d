-- Schema 3: the choices once more, as a lookup reads them. Words and meanings: docs/store.md.

-- One row, or none. Derived from the rows of choice and problem: whoever changes these drops it, in the same transaction.
CREATE TABLE serving (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    layout  TEXT NOT NULL,
    digest  BLOB NOT NULL,
    content BLOB NOT NULL
) STRICT;

CREATE TRIGGER serving_choice_inserted AFTER INSERT ON choice BEGIN DELETE FROM serving; END;
CREATE TRIGGER serving_choice_updated AFTER UPDATE ON choice BEGIN DELETE FROM serving; END;
CREATE TRIGGER serving_choice_deleted AFTER DELETE ON choice BEGIN DELETE FROM serving; END;
CREATE TRIGGER serving_problem_updated AFTER UPDATE ON problem BEGIN DELETE FROM serving; END;
CREATE TRIGGER serving_problem_deleted AFTER DELETE ON problem BEGIN DELETE FROM serving; END;
