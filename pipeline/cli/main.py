"""The ``holter`` command. Each verb lives in a module of its own; this one only names them."""

from __future__ import annotations

import typer

from holter.pipeline.cli import (
    advise,
    bad_batches,
    compare,
    control,
    diagnose,
    fit,
    follow,
    jobs,
    migrate,
    preflight,
    replay,
    schema,
    sql,
    stack,
    sync,
    topics,
)

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Sees every step of a live training run, says what is going wrong and, where allowed, treats it.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage. Example: holter up && holter status",
)

app.command()(stack.up)
app.command()(stack.down)
app.command()(stack.status)
app.command()(sql.sql)
app.command()(advise.advise)
app.command()(fit.fit)
app.command()(follow.follow)
app.command()(migrate.migrate)
app.command()(preflight.preflight)
app.command()(replay.replay)
app.command()(compare.compare)
app.command()(diagnose.diagnose)
app.command()(sync.sync)
app.command()(schema.schema)
app.command()(control.hold)
app.command()(control.release)
app.command()(control.approve)
app.command()(control.reject)
app.command()(control.act)
app.command()(control.policy)
app.command()(bad_batches.bad_batches)
app.add_typer(topics.app, name="topics")
app.add_typer(jobs.app, name="jobs")


def main() -> None:
    app()


if __name__ == "__main__":
    main()
