"""``make rescue``: live runs hurt in ten ways, each treated by every policy and beside one that is not treated."""
