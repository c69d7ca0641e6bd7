"""How findings are put to people, in a terminal and on a page."""

from __future__ import annotations

from holter.pipeline.replay.findings import Advice, Finding
from holter.pipeline.replay.replay import Replayed

_MAX_NOTICES = 5


def counted(number: int, what: str) -> str:
    """
    >>> counted(1, "log"), counted(1200, "log")
    ('1 log', '1,200 logs')
    """
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def headline(log: Replayed) -> str:
    """What was read: format, rows, steps, and from which columns."""
    columns = ", ".join(own for name, own in sorted(log.columns.items()))
    return (
        f"{log.format}, {counted(log.num_rows, 'row')}, steps {log.first_step:,} to {log.last_step:,}, read: {columns}"
    )


def notice_texts(log: Replayed) -> list[str]:
    """The newest notices, the last one last, and how many more there are."""
    notices = log.notices
    texts = [f"step {event.step:,}: {event.reason}" for event in notices[-_MAX_NOTICES:]]
    num_more = len(notices) - len(texts)
    return [f"{counted(num_more, 'earlier notice')}, all with --json", *texts] if num_more else texts


def steps_text(finding: Finding) -> str:
    """From the onset to the last word of it; where the log's steps have gone back since, only the onset."""
    if finding.onset_step > finding.last_step:
        return f"{finding.onset_step:,} on"
    if finding.onset_step == finding.last_step:
        return f"{finding.onset_step:,}"
    return f"{finding.onset_step:,} – {finding.last_step:,}"


def chance_text(finding: Finding) -> str:
    """As first said, and the lowest where that is another."""
    if finding.p_first is None or finding.p_lowest is None:
        return "unknown"
    first, lowest = f"{finding.p_first:.2f}", f"{finding.p_lowest:.2f}"
    return first if first == lowest else f"{first}, lowest {lowest}"


def advice_text(advice: Advice, with_policy: bool = True) -> str:
    said = f"{advice.action} at step {advice.step:,}: {advice.reason}" if advice.acts else f"monitor: {advice.reason}"
    return f"{advice.policy}: {said}" if with_policy else said
