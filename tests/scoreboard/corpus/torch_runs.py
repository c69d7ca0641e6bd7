"""Real runs of a small language model, trained on the spot and hurt at a known step (a few seconds each, one core).

The text is a random Markov chain, so nothing is downloaded and the loss has a floor to fall to.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor, nn

from holter.schemas.telemetry import GRAD_NORM, LEARNING_RATE, LOSS
from tests.scoreboard.series import records_of
from tests.scoreboard.truth import Label, LabelledRun

VOCABULARY, CONTEXT, BATCH, WIDTH = 64, 24, 8, 32
BAND = 1.12
"""A loss whose median of nine is within 12 % of that before the fault is healed."""


@dataclass(frozen=True)
class TorchFault:
    """What is done in ``num_steps`` steps from ``step`` on: to the rate, to the gradient, to the data, to the loss."""

    name: str
    kind: str
    step: int
    num_steps: int = 5
    lr_times: float = 1.0
    grad_times: float = 1.0
    garbage: bool = False
    loss_is_nan: bool = False

    def is_on(self, step: int) -> bool:
        return self.step <= step < self.step + self.num_steps


HEALTHY = TorchFault("healthy", "", step=0, num_steps=0)
FAULTS = (
    HEALTHY,
    TorchFault("rate x 30", "loss_spike", 200, lr_times=30.0),
    TorchFault("rate x 300 to the end", "divergence", 250, num_steps=10_000, lr_times=300.0),
    TorchFault("gradient x 1000", "grad_explosion", 220, num_steps=3, grad_times=1_000.0),
    TorchFault("garbage", "loss_spike", 260, num_steps=8, garbage=True),
    TorchFault("no number", "nan", 300, num_steps=10_000, loss_is_nan=True),
)


def runs(num_steps: int = 400) -> Iterator[LabelledRun]:
    for seed, fault in enumerate(FAULTS):
        columns = train(fault, num_steps, seed)
        yield LabelledRun(f"torch/{fault.name}", "torch", records_of(columns), labels_of(fault, columns[LOSS]))


class SmallGpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(CONTEXT, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        logits: Tensor = self.head(self.layers(self.tokens(tokens) + self.places, mask=mask, is_causal=True))
        return logits


def train(fault: TorchFault, num_steps: int, seed: int) -> dict[str, list[float]]:
    """Loss, gradient norm and learning rate of every step, as the trainer logs them before it clips."""
    with torch.random.fork_rng(devices=[]), _one_thread():
        torch.manual_seed(seed)
        chain = torch.softmax(3.0 * torch.randn(VOCABULARY, VOCABULARY), dim=-1)
        model = SmallGpt()
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95))
        logged: dict[str, list[float]] = {LOSS: [], GRAD_NORM: [], LEARNING_RATE: []}
        for step in range(num_steps):
            values = _step(model, optimizer, chain, fault, step)
            for metric, value in values.items():
                logged[metric].append(value)
    return logged


@contextmanager
def _one_thread() -> Iterator[None]:
    """Operations this small are many times slower when threads wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _step(
    model: SmallGpt, optimizer: torch.optim.Optimizer, chain: Tensor, fault: TorchFault, step: int
) -> dict[str, float]:
    is_on = fault.is_on(step)
    rate = 3e-3 * min(1.0, (step + 1) / 30.0) * (fault.lr_times if is_on else 1.0)
    for group in optimizer.param_groups:
        group["lr"] = rate
    text = _text(chain, garbage=is_on and fault.garbage)
    logits = model(text[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
    loss = loss * math.nan if is_on and fault.loss_is_nan else loss
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    norm = _scaled_norm(model, fault.grad_times if is_on else 1.0)
    optimizer.step()
    return {LOSS: loss.item(), GRAD_NORM: norm, LEARNING_RATE: rate}


def _scaled_norm(model: SmallGpt, times: float) -> float:
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    for gradient in gradients:
        gradient.mul_(times)
    return float(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(grad) for grad in gradients])))


def _text(chain: Tensor, garbage: bool) -> Tensor:
    """``BATCH`` lines of ``CONTEXT`` + 1 tokens; garbage has no order to learn."""
    if garbage:
        return torch.randint(VOCABULARY, (BATCH, CONTEXT + 1))
    tokens = [torch.randint(VOCABULARY, (BATCH,))]
    while len(tokens) <= CONTEXT:
        tokens.append(torch.multinomial(chain[tokens[-1]], 1).squeeze(1))
    return torch.stack(tokens, dim=1)


def labels_of(fault: TorchFault, losses: list[float]) -> list[Label]:
    """From the fault to the last row that is outside the band; lost where that is the end of the run."""
    if fault.num_steps == 0:
        return []
    before = median(losses[fault.step - 50 : fault.step])
    levels = [median(losses[row - 4 : row + 5]) for row in range(fault.step, len(losses) - 4)]
    outside = [fault.step + at for at, level in enumerate(levels) if not level <= BAND * before]
    last_row = max(outside, default=fault.step + fault.num_steps - 1)
    recovered = last_row < len(losses) - 20
    return [Label(fault.step, last_row if recovered else len(losses) - 1, fault.kind, fault.name, recovered)]
