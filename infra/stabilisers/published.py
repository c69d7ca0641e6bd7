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
        "ByteDance's management of the machines under a job: real-time checks, diagnosis while a job stands, eviction "
        "of suspected machines by data (more rather than fewer), hot updates in place, warm standby hosts, and "
        "checkpoints placed so that an eviction spares them; 97 % of a three-month job on 9,600 GPUs was training",
        "taken: failures without an error watched besides exits (silence, hang, non-finite values, loss and gradient), "
        "and one record of every incident and its outcome. Not taken: eviction, standby hosts and hot updates, since "
        "Holter owns no machines; it names rank and host to whoever does",
    ),
    Related(
        "2601.22966 outlier-driven rescaling",
        "attention and residual sinks act, through softmax and RMSNorm, as a scale of all else: clipping them makes "
        "training worse, explicit gates in their place make it better (two points on average)",
        "taken: outliers inside a network are not faults, so no detector here looks at activations and no stabiliser "
        "clips them. Not taken: the gates, a change of the user's architecture, which a guard around the loop must "
        "not make",
    ),
)
