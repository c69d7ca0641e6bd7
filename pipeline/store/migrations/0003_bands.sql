-- What a page draws around a curve, and what a probability of recovery was computed from. Rows of before have none.

ALTER TABLE {database}.raw_signals
    ADD COLUMN IF NOT EXISTS features Map(String, Float64),
    ADD COLUMN IF NOT EXISTS band_low Nullable(Float64),
    ADD COLUMN IF NOT EXISTS band_high Nullable(Float64);

ALTER TABLE {database}.raw_windows
    ADD COLUMN IF NOT EXISTS baseline Nullable(Float64),
    ADD COLUMN IF NOT EXISTS band_low Nullable(Float64),
    ADD COLUMN IF NOT EXISTS band_high Nullable(Float64),
    ADD COLUMN IF NOT EXISTS score Nullable(Float64);

CREATE OR REPLACE VIEW {database}.windows
(
    project LowCardinality(String) COMMENT 'Project of the run',
    run LowCardinality(String) COMMENT 'Name of the run',
    metric LowCardinality(String) COMMENT 'Name of the metric',
    attempt UInt64 COMMENT 'Attempts of the run in their order: 1, 2, 3',
    rank Int32 COMMENT 'Rank, -1 for values reduced over all ranks',
    first_step Int64 COMMENT 'First step of the window',
    last_step Int64 COMMENT 'Last step of the window',
    ts DateTime64(3, 'UTC') COMMENT 'Time of the record that closed it',
    count UInt64 COMMENT 'Values',
    num_finite UInt64 COMMENT 'Of them neither NaN nor infinite; the others enter nothing else',
    sum Float64 COMMENT 'Sum',
    mean Float64 COMMENT 'Mean',
    sd Float64 COMMENT 'Standard deviation',
    min Float64 COMMENT 'Least value',
    max Float64 COMMENT 'Greatest value',
    ema Float64 COMMENT 'Exponential moving average, running on over the windows',
    slope Float64 COMMENT 'Least squares slope a step',
    median Float64 COMMENT 'Median',
    mad Float64 COMMENT 'Median absolute deviation',
    p05 Float64 COMMENT '5th percentile',
    p50 Float64 COMMENT '50th percentile',
    p95 Float64 COMMENT '95th percentile',
    p99 Float64 COMMENT '99th percentile',
    baseline Nullable(Float64) COMMENT 'Median of the window before, NULL where there is none',
    band_low Nullable(Float64) COMMENT 'Three scales (1.4826 MAD) of the window before below its median',
    band_high Nullable(Float64) COMMENT 'Three scales of the window before above its median',
    score Nullable(Float64) COMMENT 'Scales from the baseline to the farthest value of this window, below it negative'
)
AS SELECT
    rows.project AS project, rows.run AS run, metric, numbered.attempt AS attempt, rank, first_step, last_step, ts,
    count, num_finite, sum, mean, sd, min, max, ema, slope, median, mad, p05, p50, p95, p99,
    baseline, band_low, band_high, score
FROM (SELECT * FROM {database}.raw_windows FINAL) AS rows
LEFT JOIN {database}.attempts AS numbered
    ON rows.project = numbered.project AND rows.run = numbered.run AND rows.attempt = numbered.attempt_id;

CREATE OR REPLACE VIEW {database}.signals
(
    project LowCardinality(String) COMMENT 'Project of the run',
    run LowCardinality(String) COMMENT 'Name of the run',
    attempt UInt64 COMMENT 'Attempts of the run in their order: 1, 2, 3',
    attempt_id Int64 COMMENT 'The number that the trainer drew',
    rank Int32 COMMENT 'Rank that was judged',
    step Int64 COMMENT 'Step that caused the signal',
    seq UInt64 COMMENT 'Number of the record that caused it',
    ts DateTime64(3, 'UTC') COMMENT 'Time by the clock of the trainer',
    kind String COMMENT 'What was seen: loss_spike, grad_explosion, nan, …',
    severity String COMMENT 'info, warning, critical',
    phase String COMMENT 'open, update or close of the incident',
    incident String COMMENT 'Id of the incident',
    state String COMMENT 'State of the incident after this signal',
    onset_step Int64 COMMENT 'Step at which the incident began',
    metric LowCardinality(String) COMMENT 'Metric that was judged',
    value Float64 COMMENT 'Its value',
    baseline Float64 COMMENT 'What was to be expected',
    score Float64 COMMENT 'What the rule computed',
    threshold Float64 COMMENT 'What the score had to exceed',
    band_low Nullable(Float64) COMMENT 'Lower end of the ordinary values of the metric at this step',
    band_high Nullable(Float64) COMMENT 'Upper end of the ordinary values of the metric at this step',
    peak Float64 COMMENT 'Worst value since the onset',
    num_steps UInt64 COMMENT 'Steps since the onset',
    evidence Array(Float64) COMMENT 'Last values of the metric, oldest first',
    p_recover Nullable(Float64) COMMENT 'Probability that the run heals by itself',
    features Map(String, Float64) COMMENT 'What p_recover was computed from, by name',
    moved Map(String, Float64) COMMENT 'Terms of the logit of p_recover, by feature',
    explanation String COMMENT 'The signal in words',
    origin String COMMENT 'watch or worker',
    live Bool COMMENT 'false for what was sent later than it happened',
    id String COMMENT 'Id of the signal'
)
AS SELECT
    rows.project AS project, rows.run AS run, numbered.attempt AS attempt, rows.attempt AS attempt_id, rank, step, seq,
    ts, kind, severity, phase, incident, state, onset_step, metric, value, baseline, score, threshold, band_low,
    band_high, peak, num_steps, evidence, p_recover, features, moved, explanation, origin, live, id
FROM (SELECT * FROM {database}.raw_signals FINAL) AS rows
LEFT JOIN {database}.attempts AS numbered
    ON rows.project = numbered.project AND rows.run = numbered.run AND rows.attempt = numbered.attempt_id;
