"""CheckFree and CheckFree+: a lost pipeline stage is made again of its neighbours, without a checkpoint.

>>> import torch
>>> from holter.producers.torch.checkfree import rebuild
>>> rebuild([torch.tensor([0.0])], [torch.tensor([4.0])], 1.0, 3.0)
[tensor([3.])]

:class:`Stage` does it between the processes of a pipeline; :class:`Supervisor` and :class:`Membership` bring those
processes together again after one has died. ``python -m holter.producers.examples.checkfree`` shows all of it.
"""

from holter.producers.torch.checkfree.membership import Generation, Membership
from holter.producers.torch.checkfree.order import execution_order, sources
from holter.producers.torch.checkfree.rebuild import rebuild
from holter.producers.torch.checkfree.stage import Replica, Stage
from holter.producers.torch.checkfree.supervisor import Supervisor, Unrecoverable

__all__ = [
    "Generation",
    "Membership",
    "Replica",
    "Stage",
    "Supervisor",
    "Unrecoverable",
    "execution_order",
    "rebuild",
    "sources",
]
