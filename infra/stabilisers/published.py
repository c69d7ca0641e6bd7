"""What the authors say of their method, to be read beside what the toy shows."""

from __future__ import annotations

from typing import NamedTuple

CLAIMS: dict[str, str] = {
    "globalgc": "test loss 2.90 → 2.33, spikes 12 → 6 at lr 1e-3 (ZClip's table); 3 spikes in 9k steps (AdaGC's)",
    "agc": "NFNet-F1 as good as EffNet-B7, 8.7× faster (2102.06171); for SGD and batches of 4096",
    "agc-all": "the authors leave the last layer unclipped; tied to the embedding, that leaves both",
    "adagc": "spike score .0333 % → 0, Llama-2 7B; zero-shot 49.69 → 51.01 (2502.11034)",
    "zclip": "test loss 2.33 → 2.18, spikes 6 → 0 at lr 1e-3, Llama 1B (2504.02507)",
    "ema-mad": "nobody's paper",
    "olmo": "an option of OLMo-core; no number published",
    "autoclip": "0 spikes, test loss 2.20 at lr 1e-3 (ZClip's table)",
    "clippy": "YouTube ranking: no divergence on 3 sizes, twice the lr; GC falls back (2302.09178)",
    "spam": "C4 perplexity 34.09 → 30.46, Llama 60M; 23.36 at 130M against 24.91 (2501.06842)",
    "stable-spam": "INT4 130M: 26.4 → 24.33; FP4: 28.9 → 26.31 (2502.17055)",
    "msign": "NanoGPT 5M fails at 30k steps without, not with; throughput −2.4 to −6.7 % (2602.01734)",
    "skip-step": "a default of OLMo-core; no number published",
    "rollback": "the policy sees loss and gradient norm and weighs going back against waiting",
    "rollback-ordered": "PaLM went back some 100 steps and skipped 200 to 500 batches, at some 20 spikes",
}

CHECKFREE_CLAIM = (
    "2506.15461, 500M parameters, 20k steps: random ≫ copy > average > weighted (worst to best); "
    "hours to loss 2.85 at 10 % failures an hour: CheckFree 406, CheckFree+ 368, redundant computation 420"
)


class Related(NamedTuple):
    paper: str
    what: str
    taken: str


RELATED: tuple[Related, ...] = (
    Related(
        "2509.03047 FlashRecovery",
        "failures found within seconds, a restart whose time does not grow with the job (150 s on 4,800 devices), and "
        "the lost state taken from a healthy data-parallel replica: one step lost at most, no checkpoint read",
        "taken: survivors keep their state, only the lost process starts anew and gets its state from those that have "
        "it (checkfree.Stage, Supervisor). Not taken: replicas across hosts and the restart of the communication "
        "library there, which belong to the launcher that owns the hosts",
    ),
    Related(
        "2509.16293 ByteRobust",
        "ByteDance's training infrastructure: quick isolation of suspected machines by stack and data analysis, warm "
        "standby hosts, checkpoints in the peers' memory, failures found by hangs and metrics as well as by exits",
        "taken: the same symptoms watched besides exits (silence, hang, loss and gradient signals), one record of "
        "every incident and its outcome. Not taken: eviction and standby hosts, since Holter owns no machines; it "
        "names rank and host to whoever does",
    ),
    Related(
        "2601.22966 outlier-driven rescaling",
        "attention sinks and residual outliers act as the scale of softmax and RMSNorm; explicit gates instead of "
        "clipping them away train more steadily",
        "taken: outliers inside a network are not faults, so no detector here looks at activations and no stabiliser "
        "clips them. Not taken: the gates, a change of the user's architecture, which a guard around the loop must "
        "not make",
    ),
)
