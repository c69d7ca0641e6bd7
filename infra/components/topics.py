"""The topics of the stack's prefix, as a component."""

from __future__ import annotations

from holter.infra.components.component import Change, Report, Status
from holter.infra.components.step import Step
from holter.infra.errors import StackError
from holter.infra.topics import create_topics, plan_topics
from holter.pipeline.bus.settings import KafkaSettings


class BrokerTopics(Step):
    name = "topics"
    needs = ("kafka",)

    def ensure(self, report: Report) -> Change:
        settings = self._settings()
        plans = plan_topics(settings)
        for plan in plans:
            if plan.action == "differs":
                report(f"{plan.name} differs: {'; '.join(plan.differences)}")
        return "started" if create_topics(settings, plans) else "unchanged"

    def status(self) -> Status:
        try:
            missing = [plan.name for plan in plan_topics(self._settings()) if plan.action == "create"]
        except StackError:
            return Status(self.name, "down", "the broker does not answer")
        return Status(self.name, "down" if missing else "up", f"missing: {', '.join(missing)}" if missing else "")

    def _settings(self) -> KafkaSettings:
        return KafkaSettings(self.context.address("kafka"), self.context.settings.prefix)
