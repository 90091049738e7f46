"""Figures, one file a topic; `draw` makes all of a run."""
