"""Other families of transformers, the bound of a layer, and ranks."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional

from holter.producers.torch import preflight
from holter.producers.torch.preflight import Subject, examine, rehearse, subject_of
from holter.producers.torch.preflight.anatomy import Anatomy
from holter.producers.torch.preflight.jacobian import jacobian_norm
from holter.producers.torch.preflight.probe import probe
from tests.producers.torch.preflight.gpts import VOCABULARY, Gpt, Shape, job

pytestmark = pytest.mark.torch


class LlamaAttention(nn.Module):
    """Separate projections, fewer heads for keys, and a norm of queries over all heads, by name."""

    def __init__(self, width: int, qk_norm: bool) -> None:
        super().__init__()
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(width, width // 2, bias=False) for _ in range(2))
        self.o_proj = nn.Linear(width, width, bias=False)
        if qk_norm:
            self.q_norm, self.k_norm = nn.RMSNorm(width), nn.RMSNorm(width // 2)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        batch, length, width = hidden_states.shape
        query, key, value = self.q_proj(hidden_states), self.k_proj(hidden_states), self.v_proj(hidden_states)
        if hasattr(self, "q_norm"):
            query, key = self.q_norm(query), self.k_norm(key)
        query, key, value = (each.view(batch, length, -1, width // 4).transpose(1, 2) for each in (query, key, value))
        heads = functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return self.o_proj(heads.transpose(1, 2).reshape(batch, length, width))


class LlamaMlp(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaLayer(nn.Module):
    def __init__(self, width: int, qk_norm: bool) -> None:
        super().__init__()
        self.self_attn, self.mlp = LlamaAttention(width, qk_norm), LlamaMlp(width)
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(width), nn.RMSNorm(width)

    def forward(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor]:
        hidden_states = hidden_states + self.self_attn(hidden_states=self.input_layernorm(hidden_states))
        return (hidden_states + self.mlp(self.post_attention_layernorm(hidden_states)),)


class Llama(nn.Module):
    def __init__(self, qk_norm: bool = True, width: int = 32, num_layers: int = 4) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(LlamaLayer(width, qk_norm) for _ in range(num_layers))
        self.norm = nn.RMSNorm(width)
        self.lm_head = nn.Linear(width, VOCABULARY, bias=False)
        for name, weight in self.named_parameters():
            if weight.dim() == 2 and "embed" not in name:
                scale = math.sqrt(2 * num_layers) if "o_proj" in name or "down_proj" in name else 1.0
                nn.init.normal_(weight, std=math.sqrt(2 / (5 * width)) / scale)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        hidden = self.embed_tokens(input_ids)
        for layer in self.layers:
            (hidden,) = layer(hidden_states=hidden)
        logits: torch.Tensor = self.lm_head(self.norm(hidden))
        return logits


def test_a_gated_model_with_keywords_is_understood() -> None:
    torch.manual_seed(0)
    assert not preflight(Llama(num_layers=2)).troubles
    report = preflight(Llama(num_layers=2, qk_norm=False))
    assert [finding.check for finding in report.troubles] == ["QK-norm"]
    assert all(layer.is_pre_norm and math.isnan(layer.bound) for layer in report.layers)  # the bound has two matrices
    assert report.layers[0].jacobian > 1.0


def test_fused_and_separate_projections_are_recognised() -> None:
    for model, count in ((Gpt(Shape()), 4), (Llama(), 4)):
        blocks = Anatomy(model).blocks
        assert len(blocks) == count
        assert all(block.attention_out is not None and block.down is not None for block in blocks)
    assert [block.is_gated for block in Anatomy(Llama()).blocks] == [True] * 4
    head = Anatomy(Llama()).head
    assert isinstance(head, nn.Linear)
    assert head.out_features == VOCABULARY


def test_what_norms_its_outputs_is_not_judged_by_their_size() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    report = preflight(nn.Sequential(nn.Embedding(50, 32), nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)))
    by_check = {finding.check: finding.severity for finding in report.findings}
    assert by_check["sub-layer scale"] == "not_checked"
    assert by_check["QK-norm"] == "note"


@pytest.mark.parametrize("scaled", [True, False])
def test_the_bound_of_a_layer_is_above_what_it_measures(scaled: bool) -> None:
    torch.manual_seed(1)
    measured = probe(Anatomy(Gpt(Shape(scaled_embedding=scaled, num_layers=3))), None)
    for layer in measured.layers:
        assert 1.0 < layer.jacobian <= layer.bound
    first, last = measured.layers[0], measured.layers[-1]
    assert (first.jacobian > 3.0 * last.jacobian) is not scaled


def test_sigma_of_the_embedding_is_the_papers() -> None:
    def first_sigma(scaled: bool) -> float:
        torch.manual_seed(0)
        return probe(Anatomy(Gpt(Shape(num_layers=1, scaled_embedding=scaled))), None).layers[0].sigma_x

    plain = first_sigma(False)
    assert plain == pytest.approx(math.sqrt(2 / (5 * 64)), rel=0.3)  # the smallest of sixteen tokens
    assert first_sigma(True) / plain == pytest.approx(math.sqrt(64), rel=1e-4)


def test_a_norm_of_a_matrix_is_found() -> None:
    torch.manual_seed(0)
    matrix, inputs = torch.randn(7, 5), torch.randn(5, requires_grad=True)
    exact = float(torch.linalg.matrix_norm(matrix, 2))
    assert jacobian_norm(matrix @ inputs, inputs, 200) == pytest.approx(exact, rel=1e-4)


def seeded(rank: int, per_rank: bool) -> nn.Module:
    torch.manual_seed(5 + rank * per_rank)
    return Gpt(Shape(num_layers=1))


def test_tensor_parallel_ranks_of_one_seed_are_serious() -> None:
    def seeds(subject: Subject) -> tuple[str, float | None]:
        (finding,) = (each for each in examine(subject).findings if each.check == "seeds of the ranks")
        return finding.severity, finding.value

    assert seeds(rehearse(lambda rank: seeded(rank, per_rank=False), "tensor")) == ("serious", 1.0)
    assert seeds(rehearse(lambda rank: seeded(rank, per_rank=True), "tensor")) == ("fine", 0.0)
    assert seeds(rehearse(lambda: Gpt(Shape(num_layers=1)), "tensor")) == ("serious", 1.0)  # nobody seeded at all


def test_data_parallel_ranks_that_drop_the_same_units_are_told() -> None:
    report = examine(rehearse(lambda: Gpt(Shape(num_layers=1, dropout=0.1)), "data"))
    assert "dropout of the ranks" in {finding.check for finding in report.troubles}
    calm = examine(rehearse(lambda: Gpt(Shape(num_layers=1)), "data"))
    assert "dropout of the ranks" not in {finding.check for finding in calm.troubles}


def test_a_function_may_return_a_model_a_tuple_or_a_dict() -> None:
    whole = job()
    assert subject_of(whole.model).optimizer is None
    sorted_out = subject_of((whole.batch, whole.scheduler, whole.model, whole.optimizer))
    named = subject_of({"model": whole.model, "optimizer": whole.optimizer, "clip": 1.0})
    assert sorted_out == replace(whole, clip=None, steps=None)
    assert (named.optimizer, named.clip) == (whole.optimizer, 1.0)
    with pytest.raises(ValueError, match="it returned modle; known are batch"):
        subject_of({"modle": whole.model})
    with pytest.raises(ValueError, match="not a model, a tuple or a dict"):
        subject_of(3)
