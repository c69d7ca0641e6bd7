"""One shape of job: topics → Java keyBy → one keyed Python function → topics.

Keying in Java and passing flat byte arrays costs a third of what PyFlink's own ``key_by`` and ``Row`` output cost. It
leans on internal API, which is why apache-flink is pinned exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import DataStream, KeyedStream, StreamExecutionEnvironment
from pyflink.datastream.connectors.base import DeliveryGuarantee, Source
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSink,
    KafkaSource,
)
from pyflink.java_gateway import get_gateway
from pyflink.util.java_utils import to_jarray

from holter.schemas.bounds import MAX_RECORD_BYTES

Offsets = Literal["committed", "earliest", "latest"]
Mode = Literal["thread", "process"]

MAX_PARALLELISM = 128  # the number of key groups; a savepoint cannot be restored with another
FRAME_TYPE = Types.PRIMITIVE_ARRAY(Types.BYTE())

_CONFIGURATION = {
    "execution.buffer-timeout.interval": "0 ms",  # the default keeps a record up to 100 ms
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    "python.fn-execution.bundle.time": "1",  # process mode only, ms; a smaller bundle size collapses
}


def environment(*, checkpoint_interval_ms: int | None = None, mode: Mode = "thread") -> StreamExecutionEnvironment:
    """Settings that this shape of job needs; all others come from the cluster or ``flink run -D``.

    A job's mode is for ever: a savepoint of one mode restores in the other without an error and with empty state.
    """
    configuration = Configuration()
    for key, value in _CONFIGURATION.items():
        configuration.set_string(key, value)
    configuration.set_string("python.execution-mode", mode)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_max_parallelism(MAX_PARALLELISM)
    if checkpoint_interval_ms is not None:
        env.enable_checkpointing(checkpoint_interval_ms)
    return env


def keyed_source(
    env: StreamExecutionEnvironment,
    *,
    bootstrap: str,
    topics: Sequence[str],
    group: str,
    offsets: Offsets,
    gathers: bool = True,
) -> KeyedStream:
    """Frames of all ``topics``, keyed by the Kafka key and, if told so, gathered while there is a backlog; one source
    keeps a key's order within each partition."""
    source = _source(bootstrap, topics, group, offsets, gathers)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "records").uid("records")
    key_type = Types.ROW([Types.STRING()]).get_java_type_info()
    selector = get_gateway().jvm.org.apache.flink.streaming.api.functions.python.KeyByKeySelector()
    return KeyedStream(stream._j_data_stream.keyBy(selector, key_type), FRAME_TYPE, stream)


def _source(bootstrap: str, topics: Sequence[str], group: str, offsets: Offsets, gathers: bool) -> Source:
    builder = (
        KafkaSource.builder()
        .set_bootstrap_servers(bootstrap)
        .set_topics(*topics)
        .set_group_id(group)
        .set_client_id_prefix(group)
        .set_starting_offsets(_starting_offsets(offsets))
    )
    builder._j_builder.setDeserializer(_java().KeyFrameDeserializer(MAX_RECORD_BYTES))
    frames = builder.build()
    return Source(_java().GatheringSource(frames.get_java_function())) if gathers else frames


def _starting_offsets(offsets: Offsets) -> KafkaOffsetsInitializer:
    if offsets == "committed":
        return KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST)
    return KafkaOffsetsInitializer.earliest() if offsets == "earliest" else KafkaOffsetsInitializer.latest()


def sink_to_topics(
    frames: DataStream,
    *,
    bootstrap: str,
    topics: Sequence[str],
    guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE,
) -> None:
    """Writes output frames, whose first byte is an index into ``topics``."""
    builder = (
        KafkaSink.builder()
        .set_bootstrap_servers(bootstrap)
        .set_delivery_guarantee(guarantee)
        .set_property("linger.ms", "0")
        .set_property("max.request.size", str(2 * MAX_RECORD_BYTES))
    )
    java_topics = to_jarray(get_gateway().jvm.java.lang.String, list(topics))
    builder._j_builder.setRecordSerializer(_java().FrameSerializer(java_topics))
    frames.sink_to(builder.build()).name("outputs").uid("outputs")


def _java() -> Any:
    """Package ``io.holter``. The jar lies in the cluster's and the client's lib folder, or is given to ``add_jars``."""
    return get_gateway().jvm.io.holter
