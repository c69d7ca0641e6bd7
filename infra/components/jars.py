"""The jars, as a component: everything in Java waits for them."""

from __future__ import annotations

from holter.infra.components.component import Change, Report, Status
from holter.infra.components.step import Step
from holter.infra.flink_distribution import find_flink, link_jars


class JarFiles(Step):
    name = "jars"

    def ensure(self, report: Report) -> Change:
        jars = self.context.jars
        change: Change = "unchanged"
        if not jars.are_current():
            report("Maven fetches and builds them (once, about 30 s)")
            jars.build(self.context.environ, self.context.layout.log("maven"))
            change = "started"
        link_jars(self.context.layout.config("flink-lib"), [*find_flink().jars, *jars.flink])
        return change

    def status(self) -> Status:
        return Status(self.name, "up" if self.context.jars.are_current() else "down")
