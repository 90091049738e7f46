"""Agreement of scores with humans, resampled; comparisons of judges, effects of attacks, rankings of systems."""
