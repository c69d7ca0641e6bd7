-- What people ordered, what became of it, and by what an action could be applied.

ALTER TABLE {database}.raw_decisions
    ADD COLUMN IF NOT EXISTS person String,
    ADD COLUMN IF NOT EXISTS answers String,
    ADD COLUMN IF NOT EXISTS answer LowCardinality(String);

ALTER TABLE {database}.raw_actions
    ADD COLUMN IF NOT EXISTS authority LowCardinality(String) DEFAULT 'run';

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
    person String COMMENT 'Who ordered it, empty where it was decided by the policy',
    answers String COMMENT 'Id of the decision that an order was about, empty for none',
    answer String COMMENT 'What became of an order: done, stale, refused; empty where there was none',
    option_names Array(String) COMMENT 'What could be done',
    option_costs Array(Nullable(Float64)) COMMENT 'Expected loss of job time of each option, seconds',
    options String COMMENT 'The options in full, as JSON',
    id String COMMENT 'Id of the decision'
)
AS SELECT
    rows.project AS project, rows.run AS run, numbered.attempt AS attempt, step, ts, incident, policy, mode, choice,
    reason, p_recover, action, held, person, answers, answer, option_names, option_costs, options, id
FROM (SELECT * FROM {database}.raw_decisions FINAL) AS rows
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
    authority String COMMENT 'By what it could be applied: run, policy, approval, person',
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
    rows.incident AS incident, rows.effect_names AS effects, rows.effects AS effects_json,
    authority, decided_ts AS decided, expires_ts AS expires, first_step, last_step,
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

-- Answers to orders are no choices.
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
        arrayMap(pair -> pair.2, arraySort(groupArrayIf(((step, seq), choice), answer = ''))) AS choices,
        arrayMap(pair -> pair.2, arraySort(groupArrayIf(((step, seq), action), action != ''))) AS issued
    FROM {database}.raw_decisions FINAL
    GROUP BY project, run, incident
) AS decided ON seen.project = decided.project AND seen.run = decided.run AND seen.incident = decided.incident;
