"""A pipeline over several processes that goes on training when one of them is killed."""
