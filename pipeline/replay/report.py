"""A page of curves, bands, incidents and probabilities. It holds its own script: it opens without a network."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go
import plotly.io
from plotly.offline import get_plotlyjs
from plotly.subplots import make_subplots

from holter.pipeline.replay.curves import Band, Chance, Curve, Curves
from holter.pipeline.replay.findings import Finding
from holter.pipeline.replay.replay import Replayed
from holter.pipeline.replay.wording import advice_text, chance_text, counted, headline, notice_texts, steps_text
from holter.schemas.telemetry import GRAD_NORM, LOSS

_LOG_AXIS_RATIO = 20.0
_MIN_DECADES = 2.0
"""An axis that spans as many decades is marked at each, a shorter one also between."""
_COLORS = {
    "recovered": "#2e9e5b",
    "recovered_higher": "#d08700",
    "rolled_back": "#7a7f87",
    "lost": "#c62f3b",
}
_OPEN_COLOR = "#d08700"
_LINE, _BAND, _LEVEL, _CHANCE, _BAD = "#2463c4", "rgba(36,99,196,.14)", "#7f9fd6", "#7b3fb5", "#c62f3b"
_NAMES = {LOSS: "loss", GRAD_NORM: "gradient norm"}
_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 1200px; padding: 1.5rem; color: #1b1f24; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .2rem; overflow-wrap: anywhere; }
p { margin: .2rem 0; } .note { color: #6a5100; } .quiet { color: #5a626c; }
table { border-collapse: collapse; margin: .6rem 0; font-size: .92rem; }
.state { white-space: nowrap; }
th, td { text-align: left; vertical-align: top; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #e3e6ea; }
.dot { display: inline-block; width: .65em; height: .65em; border-radius: 50%; margin-right: .45em; }
"""


def report_page(logs: Sequence[Replayed], unusable: Sequence[tuple[str, str]] = ()) -> str:
    """The page: a section for each log, in order. ``unusable`` names files and why they were left out."""
    left_out = "".join(f'<p class="note">{escape(name)}: {escape(why)}</p>' for name, why in unusable)
    sections = "".join(_section(log) for log in logs)
    num_incidents = sum(len(log.findings) for log in logs)
    legend = "Dotted: the baseline, in a band of what was ordinary. Crosses: not finite. Coloured spans: incidents."
    title = f"{counted(num_incidents, 'incident')} in {counted(len(logs), 'log')}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Holter replay: {title}</title>'
        f"<style>{_STYLE}</style><script>{get_plotlyjs()}</script></head>"
        f'<body><h1>Holter replay: {title}</h1><p class="quiet">{legend}</p>{left_out}{sections}</body></html>\n'
    )


def _section(log: Replayed) -> str:
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in log.notes)
    told = "".join(f'<p class="quiet">{escape(text)}</p>' for text in notice_texts(log))
    return (
        f"<section><h2>{escape(str(log.path))}</h2>"
        f'<p class="quiet">{escape(headline(log))}</p>{notes}{_table(log.findings)}{told}{_drawing(log)}</section>'
    )


def _table(found: Sequence[Finding]) -> str:
    if not found:
        return "<p>Nothing out of the ordinary.</p>"
    rows = "".join(
        f"<tr><td>{steps_text(one)}</td><td>{escape(', '.join(one.kinds))}<br>"
        f'<span class="quiet">{escape(one.seen)}</span></td><td>{chance_text(one)}</td>'
        f'<td class="state"><span class="dot" style="background:{_color(one.state)}"></span>{escape(one.state)}</td>'
        f"<td>{'<br>'.join(escape(advice_text(advice)) for advice in one.advice)}</td></tr>"
        for one in found
    )
    return (
        "<table><thead><tr><th>Steps</th><th>What was seen</th><th>P(recover)</th><th>State</th>"
        f"<th>What the policy would have done</th></tr></thead><tbody>{rows}</tbody></table>"
    )


def _drawing(log: Replayed) -> str:
    if log.curves is None:
        return ""
    figure = _figure(log, log.curves)
    return str(plotly.io.to_html(figure, full_html=False, include_plotlyjs=False, config={"displaylogo": False}))


def _figure(log: Replayed, curves: Curves) -> go.Figure:
    metrics = list(curves.by_metric)
    heights = [0.45, 0.3][: len(metrics)]
    figure = make_subplots(
        rows=len(metrics) + 1, cols=1, shared_xaxes=True, vertical_spacing=0.03, row_heights=[*heights, 0.25]
    )
    axis = _Axis(curves)
    for place, metric in enumerate(metrics, start=1):
        _draw_metric(figure, place, metric, curves, axis)
    _draw_chances(figure, len(metrics) + 1, curves.chances, axis)
    for one in log.findings:
        figure.add_vrect(
            x0=axis.at(one.row), x1=axis.at(one.last_row), fillcolor=_color(one.state), opacity=0.13,
            line={"width": 1, "color": _color(one.state)}, layer="below",
        )  # fmt: skip
    figure.update_xaxes(title_text=axis.title, row=len(metrics) + 1, col=1)
    figure.update_layout(
        height=200 + 170 * (len(metrics) + 1), margin={"l": 70, "r": 20, "t": 20, "b": 50}, hovermode="x unified",
        template="plotly_white", showlegend=False,
    )  # fmt: skip
    return figure


class _Axis:
    """Rows on the axis of steps, or of rows where the steps go back."""

    def __init__(self, curves: Curves) -> None:
        self._steps = curves.steps
        self._has_steps = curves.has_own_axis
        self.note = "" if curves.has_own_axis else "%{text}"
        self.title = "step" if curves.has_own_axis else "row of the log (its steps go back)"

    def at(self, row: int) -> int:
        return self._steps[row] if self._has_steps else row

    def along(self, rows: Iterable[int]) -> list[int]:
        return [self.at(row) for row in rows]

    def hover(self, rows: Iterable[int]) -> list[str] | None:
        """What the axis does not say of the rows."""
        return None if self._has_steps else [f" (step {self._steps[row]:,})" for row in rows]


def _draw_metric(figure: go.Figure, place: int, metric: str, curves: Curves, axis: _Axis) -> None:
    curve = curves.by_metric[metric]
    is_log = _wants_log_axis(curve.values)
    low, high = _shown_range(curve.values, is_log)
    if metric in curves.bands:
        for trace in _band_traces(curves.bands[metric], low, high, axis):
            figure.add_trace(trace, row=place, col=1)
    figure.add_trace(_curve_trace(curve, _NAMES[metric], axis), row=place, col=1)
    if curve.non_finite:
        figure.add_trace(_non_finite_trace(curve, _NAMES[metric], axis), row=place, col=1)
    shown = [math.log10(low), math.log10(high)] if is_log else [low, high]
    figure.update_yaxes(
        title_text=_NAMES[metric], type="log" if is_log else "linear", range=shown, exponentformat="power",
        dtick=1 if is_log and shown[1] - shown[0] > _MIN_DECADES else None, row=place, col=1,
    )  # fmt: skip


def _curve_trace(curve: Curve, name: str, axis: _Axis) -> go.Scatter:
    return go.Scatter(
        x=axis.along(curve.rows), y=curve.values, name=name, text=axis.hover(curve.rows),
        mode="lines", line={"color": _LINE, "width": 1.2}, hovertemplate="%{y:.5g}" + axis.note,
    )  # fmt: skip


def _non_finite_trace(curve: Curve, name: str, axis: _Axis) -> go.Scatter:
    """Crosses at the height of the highest finite value."""
    return go.Scatter(
        x=axis.along(curve.non_finite), y=[max(curve.values, default=1.0)] * len(curve.non_finite),
        name=f"{name} not finite", text=axis.hover(curve.non_finite), mode="markers",
        marker={"symbol": "x", "color": _BAD, "size": 7}, hovertemplate="not finite" + axis.note,
    )  # fmt: skip


def _band_traces(band: Band, lowest: float, highest: float, axis: _Axis) -> list[go.Scatter]:
    """A band is cut at what the axis shows: a young one is wider than all that follows."""
    x = axis.along(band.rows)
    quiet: dict[str, Any] = {"x": x, "mode": "lines", "hoverinfo": "skip", "line": {"width": 0}}
    return [
        go.Scatter(**quiet, y=[max(value, lowest) for value in band.low]),
        go.Scatter(**quiet, y=[min(value, highest) for value in band.high], fill="tonexty", fillcolor=_BAND),
        go.Scatter(x=x, y=band.level, name="baseline", mode="lines", hovertemplate="%{y:.5g}",
                   line={"color": _LEVEL, "width": 1, "dash": "dot"}),
    ]  # fmt: skip


def _draw_chances(figure: go.Figure, place: int, chances: Sequence[Chance], axis: _Axis) -> None:
    for chance in chances:
        trace = go.Scatter(
            x=axis.along(chance.rows), y=chance.values, name="P(recover)", mode="lines+markers",
            line={"color": _CHANCE, "shape": "hv", "width": 1.5}, marker={"size": 4}, text=axis.hover(chance.rows),
            hovertemplate="%{y:.2f}" + axis.note,
        )  # fmt: skip
        figure.add_trace(trace, row=place, col=1)
    if not chances:
        figure.add_trace(go.Scatter(x=[], y=[]), row=place, col=1)
    figure.add_hline(y=0.5, line={"color": "#b9bfc7", "width": 1, "dash": "dash"}, row=place, col=1)
    figure.update_yaxes(title_text="P(recover)", range=[-0.05, 1.05], row=place, col=1)


def _wants_log_axis(values: Sequence[float]) -> bool:
    low, high = min(values, default=0.0), max(values, default=0.0)
    return low > 0.0 and high / low > _LOG_AXIS_RATIO


def _shown_range(values: Sequence[float], is_log: bool) -> tuple[float, float]:
    """What the axis shows: all values, and a little more."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if is_log:
        margin = (high / low) ** 0.05
        return low / margin, high * margin
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin


def _color(state: str) -> str:
    return _COLORS.get(state, _OPEN_COLOR)
