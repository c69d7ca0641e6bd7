-- The learned detector's words are notices, too.

CREATE OR REPLACE VIEW {database}.notices
(
    project LowCardinality(String) COMMENT 'Project of the run',
    run LowCardinality(String) COMMENT 'Name of the run',
    attempt UInt64 COMMENT 'Attempts of the run in their order: 1, 2, 3',
    step Int64 COMMENT 'Step at which it was noticed',
    ts DateTime64(3, 'UTC') COMMENT 'Time by the clock of the trainer',
    kind String COMMENT 'level_shift, plateau, or learned: what the learned detector takes for trouble',
    metric LowCardinality(String) COMMENT 'Metric that was judged',
    since_step Int64 COMMENT 'Step since which it holds',
    value Float64 COMMENT 'Its level; of learned, the value',
    baseline Float64 COMMENT 'The level before; of a plateau, the lowest',
    score Float64 COMMENT 'How large; of learned, the log odds of trouble',
    threshold Float64 COMMENT 'What the score exceeded',
    explanation String COMMENT 'The notice in words'
)
AS SELECT
    project, run, attempt, step, ts, kind, metric, onset_step AS since_step, value, baseline, score, threshold, explanation
FROM {database}.signals
WHERE severity = 'info' AND incident = id;
