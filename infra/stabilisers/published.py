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
    "rollback": "the default policy, told loss, gradient norm, update norm and rate, and free to go back only",
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
    Related(
        "2509.25087 Scaling with Collapse",
        "loss curves of models of all sizes, over their share of the run and their final loss, fall onto one; a "
        "residual against a finished run's curve shows a slow fault early",
        "taken: `holter compare LOG --reference LOG` (`paper`), after the fact or while a run goes on. Not taken: its "
        "fitted curve in place of a reference, and early stopping; `watch` does not know a reference, and says nothing",
    ),
    Related(
        "2604.00726 silent data corruption",
        "an update that would do harm is seen before it is committed, and the step is computed again",
        "taken: `reflex=SkipExplosions()` leaves an exploding gradient's update out before it reaches the weights, on "
        "all ranks. Not taken: computing the step again, since forward and backward are the user's",
    ),
    Related(
        "Smol Training Playbook (SmolLM3)",
        "what went wrong in a run of 11 T tokens, and cures in the order in which they were tried: go back and skip "
        "data, clip harder, normalise queries and keys",
        "taken: going back past the data (`rollback` with `skip_range`), `clip_adjust`, and in `holter preflight` "
        "seeds that are equal on ranks, weight decay on embeddings, and logits with no QK-norm or z-loss. Not taken: "
        "filters and audits of the data, which are made before training",
    ),
    Related(
        "2503.20263 L4",
        "finds the failing node and line of a dead job in its logs: templates of log lines that no comparable job that "
        "succeeded has, a forest over nodes, and distances between iterations",
        "taken: `holter diagnose LOGS --good LOGS` (`pipeline/diagnose`, `paper`), after a job is dead. Published: F1 "
        "of lines .873, faulty node first 65.8 %, among five 80 %; here .900, 94 %, 100 % on synthetic logs of 36 "
        "failures of 64 nodes (docs/diagnose.md), a check of the code and no repetition. Not taken: running inside "
        "`watch`, which reads metrics and keeps no text of any node",
    ),
)
