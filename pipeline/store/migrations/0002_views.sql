-- What people query. Every view reads with FINAL, numbers a run's attempts 1, 2, 3 and comments its columns.

CREATE OR REPLACE VIEW {database}.attempts
(
    project LowCardinality(String) COMMENT 'Project of the run',
    run LowCardinality(String) COMMENT 'Name of the run',
    attempt UInt64 COMMENT 'Attempts of the run in their order: 1, 2, 3',
    attempt_id Int64 COMMENT 'The number that the trainer drew: milliseconds since 1970 at its start',
    parent_id Nullable(Int64) COMMENT 'attempt_id that this one continues, NULL for a first one',
    parent_step Nullable(Int64) COMMENT 'Last step of the parent that is kept',
    started DateTime64(3, 'UTC') COMMENT 'Start by the clock of the trainer',
    host String COMMENT 'Host of rank 0',
    num_ranks UInt32 COMMENT 'Ranks of the job',
    config String COMMENT 'Configuration of the run as JSON',
    versions String COMMENT 'Versions of what it ran with, as JSON',
    allow Array(String) COMMENT 'Effects that the user lets Holter apply'
)
AS SELECT
    project, run,
    row_number() OVER (PARTITION BY project, run ORDER BY attempt) AS attempt,
    raw.attempt AS attempt_id,
    parent_attempt AS parent_id,
    parent_step, ts AS started, host, num_ranks, config, versions, allow
FROM {database}.raw_attempts AS raw FINAL;

CREATE OR REPLACE VIEW {database}.metrics
(
    project LowCardinality(String) COMMENT 'Project of the run',
    run LowCardinality(String) COMMENT 'Name of the run',
    metric LowCardinality(String) COMMENT 'Name of the metric, namespace/name',
    attempt UInt64 COMMENT 'Attempts of the run in their order: 1, 2, 3',
    attempt_id Int64 COMMENT 'The number that the trainer drew',
    rank Int32 COMMENT 'Rank, -1 for a value reduced over all ranks',
    split String COMMENT 'train or eval',
    step Int64 COMMENT 'Optimizer step as the trainer counts it',
    ts DateTime64(3, 'UTC') COMMENT 'Time by the clock of the trainer',
    value Float64 COMMENT 'The value; NaN and infinities as themselves',
    is_finite Bool COMMENT 'Whether the value is neither NaN nor infinite; aggregates want avgIf(value, is_finite)'
)
AS SELECT
    values.project AS project, values.run AS run, metric, numbered.attempt AS attempt, values.attempt AS attempt_id,
    rank, split, step, ts, value, is_finite
FROM (SELECT *, is_finite FROM {database}.raw_metrics FINAL) AS values
LEFT JOIN {database}.attempts AS numbered
    ON values.project = numbered.project AND values.run = numbered.run AND values.attempt = numbered.attempt_id;

CREATE OR REPLACE VIEW {database}.steps
(
    project LowCardinality(String) COMMENT 'Project of the run',
    run LowCardinality(String) COMMENT 'Name of the run',
    attempt UInt64 COMMENT 'Attempts of the run in their order: 1, 2, 3',
    attempt_id Int64 COMMENT 'The number that the trainer drew',
    rank Int32 COMMENT 'Rank, -1 for values reduced over all ranks',
    split String COMMENT 'train or eval',
    step Int64 COMMENT 'Optimizer step as the trainer counts it',
    ts DateTime64(3, 'UTC') COMMENT 'Time by the clock of the trainer',
    loss Nullable(Float64) COMMENT 'train/loss, NULL where the step has none',
    grad_norm Nullable(Float64) COMMENT 'train/grad_norm: before clipping, after unscaling',
    update_norm Nullable(Float64) COMMENT 'train/update_norm: norm of the change of the weights',
    learning_rate Nullable(Float64) COMMENT 'optim/lr of the first parameter group',
    step_seconds Nullable(Float64) COMMENT 'perf/step_seconds: wall time of the step',
    step_applied Bool COMMENT 'Whether the optimizer step was made; false for one that was skipped',
    accumulation UInt32 COMMENT 'Micro-batches a step',
    loss_scope String COMMENT 'Over what the loss is reduced: rank, global, shard',
    grad_norm_scope String COMMENT 'Over what the gradient norm is reduced',
    grad_norm_scaled Bool COMMENT 'Whether the gradient norm still has the loss scale in it',
    update_norm_source String COMMENT 'How the update norm is known: none, sampled, full',
    live Bool COMMENT 'false for what was sent later than it happened'
)
AS SELECT
    rows.project AS project, rows.run AS run, numbered.attempt AS attempt, rows.attempt AS attempt_id, rank, split,
    step, ts, loss, grad_norm, update_norm, learning_rate, step_seconds, step_applied, accumulation, loss_scope,
    grad_norm_scope, grad_norm_scaled, update_norm_source, live
FROM (SELECT * FROM {database}.raw_steps FINAL) AS rows
LEFT JOIN {database}.attempts AS numbered
    ON rows.project = numbered.project AND rows.run = numbered.run AND rows.attempt = numbered.attempt_id;

-- Attempts are a tree, whose leaf in use is the newest one: walk from it to the root and keep of each parent what lies
-- before the child left it. A child's number is greater than its parent's, so one pass in falling order is enough.
CREATE OR REPLACE VIEW {database}.surviving_attempts
(
    project LowCardinality(String) COMMENT 'Project of the run',
    run LowCardinality(String) COMMENT 'Name of the run',
    attempt_id Int64 COMMENT 'An attempt on the line from the first to the newest one',
    last_kept_step Int64 COMMENT 'Its last step on the line; later ones were rolled back'
)
AS SELECT project, run, line.1 AS attempt_id, line.2 AS last_kept_step
FROM
(
    SELECT project, run, arrayJoin(tupleElement(arrayFold(
        (state, node) -> if(
            tupleElement(state, 1) = node.1 OR empty(tupleElement(state, 3)),
            (
                ifNull(node.2, toInt64(-1)),
                least(tupleElement(state, 2), ifNull(node.3, toInt64(9223372036854775807))),
                arrayPushBack(tupleElement(state, 3), (node.1, tupleElement(state, 2)))
            ),
            state
        ),
        arrayReverseSort(groupArray((attempt_id, parent_id, parent_step))),
        (toInt64(-1), toInt64(9223372036854775807), CAST([], 'Array(Tuple(Int64, Int64))'))
    ), 3)) AS line
    FROM {database}.attempts
    GROUP BY project, run
);

CREATE OR REPLACE VIEW {database}.surviving_steps
(
    project LowCardinality(String) COMMENT 'Project of the run',
    run LowCardinality(String) COMMENT 'Name of the run',
    attempt UInt64 COMMENT 'Attempt that made the step',
    rank Int32 COMMENT 'Rank, -1 for values reduced over all ranks',
    split String COMMENT 'train or eval',
    step Int64 COMMENT 'Optimizer step; each one once a rank, rolled-back ones left out',
    ts DateTime64(3, 'UTC') COMMENT 'Time by the clock of the trainer',
    loss Nullable(Float64) COMMENT 'train/loss',
    grad_norm Nullable(Float64) COMMENT 'train/grad_norm',
    update_norm Nullable(Float64) COMMENT 'train/update_norm',
    learning_rate Nullable(Float64) COMMENT 'optim/lr',
    step_seconds Nullable(Float64) COMMENT 'perf/step_seconds',
    step_applied Bool COMMENT 'Whether the optimizer step was made'
)
AS SELECT
    steps.project AS project, steps.run AS run, steps.attempt AS attempt, rank, split, step, ts, loss, grad_norm,
    update_norm, learning_rate, step_seconds, step_applied
FROM {database}.steps AS steps
INNER JOIN {database}.surviving_attempts AS line
    ON steps.project = line.project AND steps.run = line.run AND steps.attempt_id = line.attempt_id
WHERE steps.step <= line.last_kept_step;

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
    p99 Float64 COMMENT '99th percentile'
)
AS SELECT
    rows.project AS project, rows.run AS run, metric, numbered.attempt AS attempt, rank, first_step, last_step, ts,
    count, num_finite, sum, mean, sd, min, max, ema, slope, median, mad, p05, p50, p95, p99
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
    peak Float64 COMMENT 'Worst value since the onset',
    num_steps UInt64 COMMENT 'Steps since the onset',
    evidence Array(Float64) COMMENT 'Last values of the metric, oldest first',
    p_recover Nullable(Float64) COMMENT 'Probability that the run heals by itself',
    moved Map(String, Float64) COMMENT 'Terms of the logit of p_recover, by feature',
    explanation String COMMENT 'The signal in words',
    origin String COMMENT 'watch or worker',
    live Bool COMMENT 'false for what was sent later than it happened',
    id String COMMENT 'Id of the signal'
)
AS SELECT
    rows.project AS project, rows.run AS run, numbered.attempt AS attempt, rows.attempt AS attempt_id, rank, step, seq,
    ts, kind, severity, phase, incident, state, onset_step, metric, value, baseline, score, threshold, peak, num_steps,
    evidence, p_recover, moved, explanation, origin, live, id
FROM (SELECT * FROM {database}.raw_signals FINAL) AS rows
LEFT JOIN {database}.attempts AS numbered
    ON rows.project = numbered.project AND rows.run = numbered.run AND rows.attempt = numbered.attempt_id;

CREATE OR REPLACE VIEW {database}.decisions
(
    project LowCardinality(String) COMMENT 'Project of the run',
    run LowCardinality(String) COMMENT 'Name of the run',
    attempt UInt64 COMMENT 'Attempts of the run in their order: 1, 2, 3',
    step Int64 COMMENT 'Step at which it was decided',
    ts DateTime64(3, 'UTC') COMMENT 'Time by the clock of the trainer',
    incident String COMMENT 'Id of the incident',
    policy String COMMENT 'Policy that decided',
    mode String COMMENT 'shadow, approve or auto',
    choice String COMMENT 'What was chosen; monitor is to wait',
    reason String COMMENT 'Why, in words',
    p_recover Nullable(Float64) COMMENT 'Probability of healing that it rested on',
    action String COMMENT 'Id of the action that was issued, empty for none',
    held String COMMENT 'Rule of safety that held the action back, empty for none',
    option_names Array(String) COMMENT 'What could be done',
    option_costs Array(Nullable(Float64)) COMMENT 'Expected loss of job time of each option, seconds',
    options String COMMENT 'The options in full, as JSON',
    id String COMMENT 'Id of the decision'
)
AS SELECT
    rows.project AS project, rows.run AS run, numbered.attempt AS attempt, step, ts, incident, policy, mode, choice,
    reason, p_recover, action, held, option_names, option_costs, options, id
FROM (SELECT * FROM {database}.raw_decisions FINAL) AS rows
LEFT JOIN {database}.attempts AS numbered
    ON rows.project = numbered.project AND rows.run = numbered.run AND rows.attempt = numbered.attempt_id;

CREATE OR REPLACE VIEW {database}.outcomes
(
    project LowCardinality(String) COMMENT 'Project of the run',
    run LowCardinality(String) COMMENT 'Name of the run',
    attempt UInt64 COMMENT 'Attempt in which it was measured',
    step Int64 COMMENT 'Step at which it was known',
    ts DateTime64(3, 'UTC') COMMENT 'Time by the clock of the trainer',
    action String COMMENT 'Id of the action',
    incident String COMMENT 'Id of the incident',
    result String COMMENT 'recovered, unchanged, worse or unknown',
    level_before Float64 COMMENT 'Level of the loss before the incident',
    level_after Float64 COMMENT 'Level of the loss after the action',
    num_steps UInt64 COMMENT 'Steps over which it was measured',
    lost_steps UInt64 COMMENT 'Steps that the action threw away'
)
AS SELECT
    rows.project AS project, rows.run AS run, numbered.attempt AS attempt, step, ts, action, incident, result,
    level_before, level_after, num_steps, lost_steps
FROM (SELECT * FROM {database}.raw_outcomes FINAL) AS rows
LEFT JOIN {database}.attempts AS numbered
    ON rows.project = numbered.project AND rows.run = numbered.run AND rows.attempt = numbered.attempt_id;

CREATE OR REPLACE VIEW {database}.actions
(
    project LowCardinality(String) COMMENT 'Project of the run',
    run LowCardinality(String) COMMENT 'Name of the run',
    attempt UInt64 COMMENT 'Attempt that it was addressed to',
    ordinal Int64 COMMENT 'Actions of the attempt: 1, 2, 3',
    incident String COMMENT 'Id of the incident',
    effects Array(String) COMMENT 'What was to be done, together',
    effects_json String COMMENT 'The effects with their values, as JSON',
    decided DateTime64(3, 'UTC') COMMENT 'When it was decided',
    expires DateTime64(3, 'UTC') COMMENT 'When it was no longer to be applied',
    first_step Int64 COMMENT 'First step at which it could be applied',
    last_step Int64 COMMENT 'Last step at which it could be applied',
    status String COMMENT 'Answer of the trainer: applied, refused, interrupted, expired; unanswered before it',
    status_reason String COMMENT 'Why it was refused, in words',
    applied_step Nullable(Int64) COMMENT 'Boundary at which the trainer handled it',
    answered Nullable(DateTime64(3, 'UTC')) COMMENT 'When the trainer answered',
    before Array(Nullable(Float64)) COMMENT 'Value of each reported effect before it',
    after Array(Nullable(Float64)) COMMENT 'Value of each reported effect after it',
    latency_ms Nullable(Float64) COMMENT 'From the latch in the trainer to the boundary',
    result String COMMENT 'Whether it helped: recovered, unchanged, worse, unknown; empty before it is known',
    lost_steps Nullable(UInt64) COMMENT 'Steps that it threw away',
    reason String COMMENT 'Why it was issued, in words',
    id String COMMENT 'Id of the action'
)
AS SELECT
    rows.project AS project, rows.run AS run, numbered.attempt AS attempt, rows.ordinal AS ordinal,
    rows.incident AS incident, rows.effect_names AS effects, rows.effects AS effects_json, decided_ts AS decided,
    expires_ts AS expires, first_step, last_step,
    if(acks.action = '', 'unanswered', acks.status) AS status, acks.reason AS status_reason,
    if(acks.action = '', NULL, acks.step) AS applied_step, if(acks.action = '', NULL, acks.ts) AS answered,
    acks.before AS before, acks.after AS after, acks.latency_ms AS latency_ms,
    outcome.result AS result, if(outcome.action = '', NULL, outcome.lost_steps) AS lost_steps, rows.reason AS reason,
    rows.id AS id
FROM (SELECT * FROM {database}.raw_actions FINAL) AS rows
LEFT JOIN {database}.attempts AS numbered
    ON rows.project = numbered.project AND rows.run = numbered.run AND rows.attempt = numbered.attempt_id
LEFT JOIN
(
    SELECT * FROM {database}.raw_acks FINAL
    ORDER BY status = 'applied' DESC, rank <= 0 DESC, attempt DESC, seq DESC LIMIT 1 BY project, run, action
) AS acks ON rows.project = acks.project AND rows.run = acks.run AND rows.id = acks.action
LEFT JOIN
(
    SELECT * FROM {database}.raw_outcomes FINAL ORDER BY step DESC, seq DESC LIMIT 1 BY project, run, action
) AS outcome ON rows.project = outcome.project AND rows.run = outcome.run AND rows.id = outcome.action;

CREATE OR REPLACE VIEW {database}.incidents
(
    project LowCardinality(String) COMMENT 'Project of the run',
    run LowCardinality(String) COMMENT 'Name of the run',
    attempt UInt64 COMMENT 'Attempts of the run in their order: 1, 2, 3',
    incident String COMMENT 'Id of the incident',
    kind String COMMENT 'What was seen first',
    metric LowCardinality(String) COMMENT 'Metric it was seen in first',
    severity String COMMENT 'Severity of its last signal',
    state String COMMENT 'spike, exploding, diverging, stuck, recovering, recovered, recovered_higher, rolled_back, lost',
    is_open Bool COMMENT 'Whether it goes on',
    onset_step Int64 COMMENT 'Step at which it began',
    opened_step Int64 COMMENT 'Step at which it was noticed',
    last_step Int64 COMMENT 'Step of its last signal',
    opened DateTime64(3, 'UTC') COMMENT 'Time of its first signal',
    closed Nullable(DateTime64(3, 'UTC')) COMMENT 'Time of its last signal, NULL while it is open',
    num_steps UInt64 COMMENT 'Steps from its onset to its last signal',
    baseline Float64 COMMENT 'What was to be expected at its opening',
    peak Float64 COMMENT 'Worst value',
    p_recover_first Nullable(Float64) COMMENT 'Probability of healing by itself when it opened',
    p_recover Nullable(Float64) COMMENT 'The last one',
    num_signals UInt64 COMMENT 'Signals of it',
    choices Array(String) COMMENT 'What was chosen about it, in order',
    actions Array(String) COMMENT 'Ids of the actions issued for it, in order'
)
AS SELECT
    seen.project AS project, seen.run AS run, seen.attempt AS attempt, seen.incident AS incident, kind, metric, severity,
    state, is_open, onset_step, opened_step, last_step, opened, if(is_open, NULL, last_ts) AS closed, num_steps,
    baseline, peak, p_recover_first, p_recover, num_signals, choices, issued AS actions
FROM
(
    SELECT
        project, run, any(attempt) AS attempt, incident,
        argMin(kind, (step, seq)) AS kind, argMin(metric, (step, seq)) AS metric,
        argMax(severity, (step, seq, phase = 'close')) AS severity, argMax(state, (step, seq, phase = 'close')) AS state,
        countIf(phase = 'close') = 0 AS is_open,
        min(onset_step) AS onset_step, min(step) AS opened_step, max(step) AS last_step,
        min(ts) AS opened, max(ts) AS last_ts, max(num_steps) AS num_steps,
        argMin(baseline, (step, seq)) AS baseline, argMax(peak, (step, seq)) AS peak,
        argMin(tuple(said.p_recover), (step, seq)).1 AS p_recover_first,
        argMax(tuple(said.p_recover), (step, seq)).1 AS p_recover,
        count() AS num_signals
    FROM {database}.signals AS said
    GROUP BY project, run, incident
) AS seen
LEFT JOIN
(
    SELECT
        project, run, incident,
        arrayMap(pair -> pair.2, arraySort(groupArray(((step, seq), choice)))) AS choices,
        arrayMap(pair -> pair.2, arraySort(groupArrayIf(((step, seq), action), action != ''))) AS issued
    FROM {database}.raw_decisions FINAL
    GROUP BY project, run, incident
) AS decided ON seen.project = decided.project AND seen.run = decided.run AND seen.incident = decided.incident;

CREATE OR REPLACE VIEW {database}.loaded
(
    topic String COMMENT 'Topic',
    partition Int32 COMMENT 'Partition of the topic',
    next_offset Int64 COMMENT 'Offset of the next record to load',
    loaded_until DateTime64(3, 'UTC') COMMENT 'Time by the broker of the last loaded record',
    loaded_at DateTime64(3, 'UTC') COMMENT 'When it was loaded'
)
AS SELECT topic, partition, next_offset, ts AS loaded_until, loaded_at FROM {database}.raw_loaded FINAL;

CREATE OR REPLACE VIEW {database}.runs
(
    project LowCardinality(String) COMMENT 'Project of the run',
    run LowCardinality(String) COMMENT 'Name of the run',
    status String COMMENT 'running, or how its newest attempt finished: completed, …',
    num_attempts UInt64 COMMENT 'Attempts so far',
    started DateTime64(3, 'UTC') COMMENT 'Start of the first attempt',
    last_seen DateTime64(3, 'UTC') COMMENT 'Last event or step by the clock of the trainer',
    last_step Nullable(Int64) COMMENT 'Last step of the newest attempt that has steps',
    last_loss Nullable(Float64) COMMENT 'Its loss',
    open_incident String COMMENT 'Id of the newest open incident, empty for none',
    open_kind String COMMENT 'What was seen in it',
    open_state String COMMENT 'Its state',
    num_incidents UInt64 COMMENT 'Incidents so far',
    num_actions UInt64 COMMENT 'Actions issued so far',
    num_applied UInt64 COMMENT 'Of them applied by the trainer',
    lost_steps UInt64 COMMENT 'Steps that actions threw away',
    is_held Bool COMMENT 'Whether a person holds all actions on it',
    loaded_until Map(String, DateTime64(3, 'UTC')) COMMENT 'How far each topic is loaded: time of its last loaded record'
)
AS WITH
    told AS
    (
        SELECT project, run, max(ts) AS last_event,
            argMaxIf(status, (attempt, seq), event = 'finish') AS finish_status,
            argMaxIf(attempt, (attempt, seq), event = 'finish') AS finished_attempt
        FROM {database}.raw_events FINAL WHERE rank <= 0 GROUP BY project, run
    ),
    stepped AS
    (
        SELECT project, run, max(ts) AS last_ts, argMax(tuple(step, loss), (attempt, step)) AS last
        FROM {database}.raw_last_steps FINAL WHERE rank <= 0 GROUP BY project, run
    ),
    troubled AS
    (
        SELECT project, run, count() AS num_incidents,
            argMaxIf(incident, opened, is_open) AS open_incident, argMaxIf(first_kind, opened, is_open) AS open_kind,
            argMaxIf(last_state, opened, is_open) AS open_state
        FROM
        (
            SELECT project, run, incident, min(ts) AS opened, countIf(phase = 'close') = 0 AS is_open,
                argMin(kind, (step, seq)) AS first_kind, argMax(state, (step, seq)) AS last_state
            FROM {database}.raw_signals FINAL GROUP BY project, run, incident
        )
        GROUP BY project, run
    ),
    treated AS
    (
        SELECT project, run, sum(issued) AS num_actions, sum(applied) AS num_applied, sum(lost) AS lost_steps
        FROM
        (
            SELECT project, run, 1 AS issued, 0 AS applied, toUInt64(0) AS lost FROM {database}.raw_actions FINAL
            UNION ALL
            SELECT project, run, 0, 1, toUInt64(0) FROM {database}.raw_acks FINAL
            WHERE status = 'applied' GROUP BY project, run, action
            UNION ALL
            SELECT project, run, 0, 0, argMax(lost_steps, (step, seq)) FROM {database}.raw_outcomes FINAL
            GROUP BY project, run, action
        )
        GROUP BY project, run
    ),
    held AS
    (
        SELECT project, run, argMax(command = 'hold', ts) AS is_held
        FROM {database}.raw_commands FINAL WHERE command IN ('hold', 'release') GROUP BY project, run
    ),
    (SELECT CAST((groupArray(topic), groupArray(until)), 'Map(String, DateTime64(3, \'UTC\'))')
        FROM (SELECT topic, max(loaded_until) AS until FROM {database}.loaded GROUP BY topic ORDER BY topic)) AS loaded_until
SELECT
    known.project AS project, known.run AS run,
    if(finished_attempt = newest AND finish_status != '', finish_status, 'running') AS status,
    num_attempts, started, greatest(newest_start, last_event, last_ts) AS last_seen,
    if(stepped.run = '', NULL, stepped.last.1) AS last_step, stepped.last.2 AS last_loss,
    open_incident, open_kind, open_state, num_incidents, num_actions, num_applied, treated.lost_steps AS lost_steps,
    is_held, loaded_until
FROM
(
    SELECT project, run, count() AS num_attempts, min(tried.started) AS started, max(tried.started) AS newest_start,
        max(attempt_id) AS newest
    FROM {database}.attempts AS tried GROUP BY project, run
) AS known
LEFT JOIN told ON known.project = told.project AND known.run = told.run
LEFT JOIN stepped ON known.project = stepped.project AND known.run = stepped.run
LEFT JOIN troubled ON known.project = troubled.project AND known.run = troubled.run
LEFT JOIN treated ON known.project = treated.project AND known.run = treated.run
LEFT JOIN held ON known.project = held.project AND known.run = held.run;
