"""Models of the transformers library, as small as they get: names, fused and transposed matrices, caches."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from holter.producers.torch import preflight
from holter.producers.torch.preflight import Report

transformers = pytest.importorskip("transformers")
pytestmark = [pytest.mark.torch, pytest.mark.frameworks]
WIDTH, VOCABULARY = 64, 200
SMALL: dict[str, Any] = {"hidden_size": WIDTH, "num_attention_heads": 4, "vocab_size": VOCABULARY}
LLAMA = {**SMALL, "num_hidden_layers": 4, "intermediate_size": 128, "num_key_value_heads": 2}
NO_TOKENS = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}


def report_of(kind: str, head: str, **config: Any) -> Report:
    torch.manual_seed(0)
    configuration = getattr(transformers, f"{kind}Config")(**{**NO_TOKENS, **config})
    model = getattr(transformers, f"{kind}For{head}" if kind != "GPT2" else "GPT2LMHeadModel")(configuration)
    ids = torch.randint(VOCABULARY, (2, 12))
    return preflight(model, batch={"input_ids": ids, "labels": ids}, clip=1.0)


def severities(report: Report) -> dict[str, str]:
    return {finding.check: finding.severity for finding in report.findings}


def test_gpt2_has_transposed_matrices_and_scaled_outputs() -> None:
    report = report_of("GPT2", "", n_layer=4, n_embd=WIDTH, n_head=4, vocab_size=VOCABULARY, n_positions=32)
    said = severities(report)
    assert (said["sub-layer scale"], said["QK-norm"], said["z-loss"]) == ("fine", "note", "note")
    assert said["embedding scale"] in ("note", "warning")
    first = report.layers[0]
    assert first.sigma_x == pytest.approx(0.02 * math.sqrt(2), rel=0.3)  # tokens and positions
    assert 1.0 < first.jacobian <= first.bound


def test_llama_has_neither_and_qwen3_norms_its_queries() -> None:
    llama = severities(report_of("Llama", "CausalLM", **LLAMA))
    assert (llama["sub-layer scale"], llama["QK-norm"]) == ("warning", "note")
    qwen = severities(report_of("Qwen3", "CausalLM", head_dim=16, **LLAMA))
    assert qwen["QK-norm"] == "fine"


def test_bloom_norms_its_embedding() -> None:
    report = report_of("Bloom", "CausalLM", hidden_size=WIDTH, n_layer=4, n_head=4, vocab_size=VOCABULARY)
    said = severities(report)
    assert (said["embedding scale"], said["QK-norm"]) == ("fine", "not_checked")
    assert 1.0 < report.layers[0].jacobian <= report.layers[0].bound


def test_gemma2_caps_its_logits_and_norms_what_its_layers_add() -> None:
    said = severities(report_of("Gemma2", "CausalLM", head_dim=16, **LLAMA))
    assert (said["z-loss"], said["sub-layer scale"]) == ("fine", "not_checked")


def test_an_encoder_is_not_judged_as_a_decoder() -> None:
    said = severities(report_of("Bert", "MaskedLM", num_hidden_layers=4, intermediate_size=128, **SMALL))
    assert said["embedding scale"] == "fine"
    assert said["sub-layer scale"] == "not_checked"
    assert "serious" not in said.values()
