"""``python -m holter.producers.examples.checkfree --kill 2@100``: a stage is killed, and training goes on."""

from __future__ import annotations

import argparse
import multiprocessing
from multiprocessing.process import BaseProcess

from torch.distributed.distributed_c10d import Store

from holter.producers.examples.checkfree.training import Settings, train_stage
from holter.producers.torch.checkfree import Supervisor, Unrecoverable


def run(settings: Settings) -> list[float]:
    """Trains; returns the loss of every step.

    Raises:
        Unrecoverable: what was killed cannot be rebuilt.
    """
    context = multiprocessing.get_context("forkserver")
    # Every optimizer imports torch._dynamo, which takes seconds: once for all stages, and for replacements too.
    context.set_forkserver_preload(["torch._dynamo", "holter.producers.examples.checkfree.training"])

    def start(number: int, port: int) -> BaseProcess:
        process = context.Process(target=train_stage, args=(number, port, settings))
        process.start()
        return process

    supervisor = Supervisor(settings.num_stages, start, swaps=settings.swaps)
    supervisor.run()
    return losses_in(supervisor.store, settings.num_steps)


def losses_in(store: Store, num_steps: int) -> list[float]:
    return [float(store.get(f"loss/{step}")) for step in range(num_steps)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stages", type=int, default=4, metavar="N", help="processes, at least 4 (default: 4)")
    parser.add_argument("--kill", default="2@100", metavar="STAGE@STEP", help="who is killed when (default: 2@100)")
    parser.add_argument(
        "--plain", action="store_true", help="CheckFree without swapped ends, which then cannot be lost"
    )
    given = parser.parse_args()
    stage, _, step = given.kill.partition("@")
    if not (stage.isdigit() and step.isdigit() and int(stage) < given.stages and given.stages >= 4):
        parser.error("--kill takes STAGE@STEP, such as 2@100, and --stages at least 4")
    settings = Settings(given.stages, swaps=not given.plain, kill=(int(stage), int(step)))
    try:
        losses = run(settings)
    except Unrecoverable as error:
        parser.exit(1, f"{error}\n")
    show(losses, int(step))


def show(losses: list[float], killed_at: int) -> None:
    for first in range(0, len(losses), 20):
        window = losses[first : first + 20]
        mark = "  <- a stage was killed and rebuilt" if first <= killed_at < first + 20 else ""
        print(f"steps {first:>3} to {first + len(window) - 1:>3}: mean loss {sum(window) / len(window):.4f}{mark}")


if __name__ == "__main__":
    main()
