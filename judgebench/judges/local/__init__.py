"""Judges whose models are read on this machine, in a Lightning `predict` loop."""
