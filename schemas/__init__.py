"""What two processes must agree on: records, topics, ids and signatures. Needs msgspec and nothing else."""

from holter.schemas.codec import Decoder, encode
from holter.schemas.errors import InvalidRecord
from holter.schemas.identity import record_id, run_key
from holter.schemas.signed import Key, KeyFileError, Keyring

__all__ = ["Decoder", "InvalidRecord", "Key", "KeyFileError", "Keyring", "encode", "record_id", "run_key"]
