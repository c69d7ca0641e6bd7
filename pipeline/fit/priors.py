"""Which effects helped against which kind of incident, and how often waiting did."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import msgspec

from holter.pipeline.core.decide.success import prior_name
from holter.pipeline.fit.from_store import HEALED, LOST, Ask
from holter.schemas.commands import Prior

WAITED = "monitor"

Priors = dict[str, Prior]
"""As a ``Policy`` command takes them: by kind of incident and effect, ``loss_spike/rollback``.

An action of several effects counts for each of them; outcomes that are not known are left out. ``loss_spike/monitor``
are the incidents that were left to themselves.
"""

APPLIED_ACTIONS = """
SELECT incidents.kind, actions.effects, actions.result
FROM actions
INNER JOIN incidents
    ON actions.project = incidents.project AND actions.run = incidents.run AND actions.incident = incidents.incident
WHERE actions.status = 'applied' AND actions.result IN ('recovered', 'unchanged', 'worse')
"""

UNTREATED_INCIDENTS = """
SELECT kind, state, count()
FROM incidents
WHERE NOT is_open
    AND (project, run, incident) NOT IN (SELECT project, run, incident FROM actions WHERE status = 'applied')
GROUP BY kind, state
"""


def gather_priors(ask: Ask) -> Priors:
    num: defaultdict[str, int] = defaultdict(int)
    num_recovered: defaultdict[str, int] = defaultdict(int)
    for kind, effects, result in ask(APPLIED_ACTIONS):
        for effect in effects:
            num[prior_name(kind, effect)] += 1
            num_recovered[prior_name(kind, effect)] += result == "recovered"
    for kind, state, count in ask(UNTREATED_INCIDENTS):
        if state in HEALED or state == LOST:
            num[prior_name(kind, WAITED)] += count
            num_recovered[prior_name(kind, WAITED)] += count * (state in HEALED)
    return {name: Prior(num[name], num_recovered[name]) for name in sorted(num)}


def write_priors(path: Path, priors: Priors) -> None:
    """Raises:
    OSError: the file cannot be written.
    """
    path.write_bytes(msgspec.json.format(msgspec.json.encode(priors), indent=2) + b"\n")
