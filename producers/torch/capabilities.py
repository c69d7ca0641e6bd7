"""What a guarded loop is able to apply, and why not the rest."""

from __future__ import annotations

from dataclasses import dataclass

from holter.schemas.bounds import EffectName


@dataclass(frozen=True)
class Abilities:
    """What is at hand on this rank."""

    ranks_agree: bool = True
    skips_together: bool = True
    """Whether a bad gradient is one on every rank, so that all of them skip the same steps."""
    resets_moments: bool = True
    clips: bool = False
    rebuilds: bool = False
    """Whether this is a stage of a pipeline that was told so."""
    saves: bool = True
    goes_back: bool = True
    state_is_known: bool = True

    def effects(self) -> frozenset[EffectName]:
        able: set[EffectName] = {"nan_guard"} if self.skips_together else set()
        if self.ranks_agree:
            able |= self._agreed_effects()
        return frozenset(able)

    def reasons(self, lacking: frozenset[EffectName]) -> str:
        """Of effects that the user allows and that are not possible."""
        if not self.ranks_agree:
            return "with more than one rank Holter applies only what all of them agree on, and they cannot"
        causes = (
            ("nan_guard" in lacking, "the ranks of this model do not see the same gradients"),
            ("clip_adjust" in lacking, "clip_adjust needs clip="),
            ("rebuild_stage" in lacking, "rebuild_stage needs stage="),
            ("momentum_reset" in lacking, "this optimizer's fresh state is not known"),
            (not self.state_is_known, "how this model's state lies on the ranks is not known"),
            (
                bool(lacking & {"rollback", "skip_range", "checkpoint_now"}) and self.state_is_known,
                "going back needs checkpoints, seen by every rank, "
                "and guard.batches over a loader that can be read again",
            ),
        )
        return "; ".join(text for applies, text in causes if applies) or "there is no way to"

    def _agreed_effects(self) -> set[EffectName]:
        able: set[EffectName] = {"lr_factor", "stop"}
        if self.resets_moments:
            able.add("momentum_reset")
        if self.clips:
            able.add("clip_adjust")
        if self.rebuilds:
            able.add("rebuild_stage")
        if self.saves:
            able.add("checkpoint_now")
        if self.goes_back:
            able |= {"skip_range", "rollback"} if self.saves else {"skip_range"}
        return able
