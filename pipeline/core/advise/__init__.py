"""Which stabilisers a training job should begin with."""
