"""Studies: what a run asks of the laws in `stats/`, as records of samples of scores."""
