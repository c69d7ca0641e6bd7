"""What Holter would have said of a run, from the log that the run left behind."""
