"""Flink jobs: the stages of ``holter.pipeline.core`` behind a Kafka source and sink."""
