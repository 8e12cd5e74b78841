-- Times are UTC without a zone. Identifiers are hashes of what they identify, so that
-- a rebuilt store has the same ones and several writers need no counter. There are no
-- keys or indexes: DuckLake has none, and zone maps serve these queries.

CREATE TABLE schema_version (
    version INTEGER NOT NULL,
    applied_at TIMESTAMP NOT NULL
);

-- One row a file: what of it is in the store now.
CREATE TABLE source_file (
    path VARCHAR NOT NULL,          -- relative to the results folder
    kind VARCHAR NOT NULL,          -- result, rounds, commits, benchmarks, machine
    sha256 VARCHAR NOT NULL,
    status VARCHAR NOT NULL,        -- read, partial, rejected
    reason VARCHAR,
    "rows" BIGINT NOT NULL,
    ingested_at TIMESTAMP NOT NULL
);

-- Every reading of a file, never deleted from.
CREATE TABLE ingest_log (
    path VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    sha256 VARCHAR NOT NULL,
    status VARCHAR NOT NULL,        -- as in source_file, and replaced
    reason VARCHAR,
    "rows" BIGINT NOT NULL,
    ingested_at TIMESTAMP NOT NULL
);

-- machine.json by folder; further fields by name in `fields`.
CREATE TABLE machine (
    folder VARCHAR NOT NULL,
    machine VARCHAR NOT NULL,
    fields JSON NOT NULL
);

-- benchmarks.json: the definitions of the newest ingested file.
CREATE TABLE benchmark (
    name VARCHAR NOT NULL,
    unit VARCHAR,
    type VARCHAR,
    version VARCHAR,
    param_names VARCHAR[] NOT NULL
);

-- `position` counts first-to-last in topological order; NULL: only a date is known.
CREATE TABLE commit_info (
    hash VARCHAR NOT NULL,
    tree VARCHAR,
    parents VARCHAR[] NOT NULL,
    author VARCHAR,
    author_date TIMESTAMP,
    commit_date TIMESTAMP NOT NULL,
    subject VARCHAR,
    tags VARCHAR[] NOT NULL,
    position BIGINT,
    known_by VARCHAR NOT NULL       -- repository, commits.jsonl, tree, date
);

-- One asv results file: a commit on a machine in an environment.
CREATE TABLE run (
    run_id BIGINT NOT NULL,
    path VARCHAR NOT NULL,
    machine VARCHAR NOT NULL,
    environment VARCHAR NOT NULL,
    commit_hash VARCHAR NOT NULL,
    commit_date TIMESTAMP NOT NULL,
    started_at TIMESTAMP,
    python VARCHAR,
    gpu VARCHAR,
    driver VARCHAR,
    torch VARCHAR,
    triton VARCHAR,
    fields JSON NOT NULL            -- the file's own params, requirements, env_vars
);

-- A benchmark at one parameter combination on a machine in an environment.
-- `param_values` are asv's repr strings and part of the identity; `params` is
-- {name: value} for display. Typed columns are NULL for other suites.
CREATE TABLE series (
    series_id BIGINT NOT NULL,
    benchmark VARCHAR NOT NULL,
    param_values VARCHAR[] NOT NULL,
    params JSON NOT NULL,
    label VARCHAR NOT NULL,
    machine VARCHAR NOT NULL,
    environment VARCHAR NOT NULL,
    unit VARCHAR,
    higher_is_better BOOLEAN NOT NULL,
    family VARCHAR,
    model VARCHAR,
    tokens BIGINT,
    tp BIGINT,
    m BIGINT,
    h BIGINT,
    v BIGINT,
    entropy VARCHAR                 -- off, metric, grad
);

-- A series' value in a run. `value`, `low`, `high` are the rounds' median and its 95 %
-- interval where rounds are attached, else asv's result and its 99 % interval.
CREATE TABLE measurement (
    run_id BIGINT NOT NULL,
    series_id BIGINT NOT NULL,
    status VARCHAR NOT NULL,        -- ok, failed (asv's null), skipped (asv's NaN)
    reason VARCHAR,
    value DOUBLE,
    low DOUBLE,
    high DOUBLE,
    round_count INTEGER NOT NULL,
    asv_value DOUBLE,
    asv_low DOUBLE,
    asv_high DOUBLE,
    q25 DOUBLE,
    q75 DOUBLE,
    samples DOUBLE[],
    version VARCHAR,
    started_at TIMESTAMP,
    duration_s DOUBLE,
    gpu VARCHAR,
    gpu_uuid VARCHAR,
    driver VARCHAR,
    torch VARCHAR,
    triton VARCHAR,
    sm_clock_mhz DOUBLE,
    power_w DOUBLE,
    temperature_c DOUBLE,
    clock_event_reasons VARCHAR[],
    schedule JSON,
    statistic VARCHAR,
    protocol VARCHAR
);

-- One process of a benchmark. Not attached: its samples are not those asv stored.
CREATE TABLE round (
    run_id BIGINT NOT NULL,
    series_id BIGINT NOT NULL,
    attached BOOLEAN NOT NULL,
    asv_run VARCHAR,                -- id of the asv invocation
    round INTEGER NOT NULL,
    status VARCHAR NOT NULL,
    reason VARCHAR,
    value DOUBLE,
    samples DOUBLE[] NOT NULL,
    started_at TIMESTAMP,
    gap_ms DOUBLE,
    gpu_uuid VARCHAR,
    sm_clock_mhz DOUBLE,
    power_w DOUBLE,
    temperature_c DOUBLE,
    clock_event_reasons VARCHAR[] NOT NULL,
    fused_lmhead_file VARCHAR
);

-- Values that a changed file took out of `measurement`.
CREATE TABLE replaced_measurement (
    path VARCHAR NOT NULL,
    replaced_at TIMESTAMP NOT NULL,
    series_id BIGINT NOT NULL,
    commit_hash VARCHAR NOT NULL,
    status VARCHAR NOT NULL,
    value DOUBLE
);

-- Of several runs of one series at one commit the latest counts.
CREATE VIEW current_measurement AS
SELECT
    measurement.* EXCLUDE (gpu, driver, torch, triton),
    coalesce(measurement.gpu, run.gpu) AS gpu,
    coalesce(measurement.driver, run.driver) AS driver,
    coalesce(measurement.torch, run.torch) AS torch,
    coalesce(measurement.triton, run.triton) AS triton,
    run.commit_hash,
    run.machine,
    run.environment
FROM measurement
JOIN run USING (run_id)
QUALIFY row_number() OVER (
    PARTITION BY measurement.series_id, run.commit_hash
    ORDER BY measurement.started_at DESC NULLS LAST, run.path
) = 1;
