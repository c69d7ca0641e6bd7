"""What the logs of a failed job's nodes say: which node, which lines, since which iteration (L4, 2503.20263)."""
