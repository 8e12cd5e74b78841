-- Files are known by whose they are (`source`), path and content; runs by the content of their
-- files, so that two results folders neither double a run nor replace each other's.
ALTER TABLE source_file ADD COLUMN source VARCHAR DEFAULT '';
ALTER TABLE source_file ADD COLUMN run_id BIGINT;
ALTER TABLE source_file ADD COLUMN kept_run_id BIGINT;
ALTER TABLE source_file RENAME COLUMN sha256 TO digest;
UPDATE source_file SET run_id = (SELECT min(run.run_id) FROM run WHERE run.path = source_file.path);
ALTER TABLE ingest_log ADD COLUMN source VARCHAR DEFAULT '';
ALTER TABLE ingest_log RENAME COLUMN sha256 TO digest;
ALTER TABLE machine ADD COLUMN source VARCHAR DEFAULT '';

-- When the round started that the typed columns were taken from: the newest counts.
ALTER TABLE series ADD COLUMN described_at TIMESTAMP;

-- asv kept a profile of the benchmark (in its file only).
ALTER TABLE measurement ADD COLUMN profiled BOOLEAN;

-- Runs that were taken out of an immutable part file of a large store.
CREATE TABLE dead_run (
    part VARCHAR NOT NULL,
    run_id BIGINT NOT NULL
);

-- The part files, beside the store: `measurement` and `round` of many runs.
CREATE TABLE part (
    name VARCHAR NOT NULL,
    created_at TIMESTAMP NOT NULL
);

-- Made anew for every connection, since it reads the parts too.
DROP VIEW current_measurement;
