"""A run, from its configuration to its folder: the recipe (`pipeline.py`) and its steps."""
