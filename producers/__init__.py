"""The trainer's side: publishes what a training run does, and applies what it was allowed to.

Needs neither torch nor a Kafka client to be imported; ``holter.producers.torch`` has the guard for PyTorch loops.
"""

from holter.producers.run import Run
from holter.producers.start import init

__all__ = ["Run", "init"]
