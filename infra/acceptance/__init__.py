"""``make acceptance``: the six figures of the design report, each measured here and now."""
