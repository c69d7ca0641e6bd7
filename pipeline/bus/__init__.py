"""Getting messages from one process to another."""

from holter.pipeline.bus.contract import Bus, BusError, Message, Publisher, Reader, Start

__all__ = ["Bus", "BusError", "Message", "Publisher", "Reader", "Start"]
