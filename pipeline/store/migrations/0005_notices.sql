-- Notices: signals of no incident (a new level, a standstill). They stay among the signals, and are no incidents.

CREATE OR REPLACE VIEW {database}.notices
(
    project LowCardinality(String) COMMENT 'Project of the run',
    run LowCardinality(String) COMMENT 'Name of the run',
    attempt UInt64 COMMENT 'Attempts of the run in their order: 1, 2, 3',
    step Int64 COMMENT 'Step at which it was noticed',
    ts DateTime64(3, 'UTC') COMMENT 'Time by the clock of the trainer',
    kind String COMMENT 'level_shift or plateau',
    metric LowCardinality(String) COMMENT 'Metric that was judged',
    since_step Int64 COMMENT 'Step since which it holds',
    value Float64 COMMENT 'Its level',
    baseline Float64 COMMENT 'The level before; of a plateau, the lowest',
    explanation String COMMENT 'The notice in words'
)
AS SELECT project, run, attempt, step, ts, kind, metric, onset_step AS since_step, value, baseline, explanation
FROM {database}.signals
WHERE severity = 'info' AND incident = id;

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
    WHERE NOT (said.severity = 'info' AND said.incident = said.id)
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
            FROM {database}.raw_signals FINAL
            WHERE NOT (severity = 'info' AND incident = id)
            GROUP BY project, run, incident
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
