"""From the topics into the store, exact by identity."""
