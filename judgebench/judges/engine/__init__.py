"""Reading prompts with a model in memory: packed rows, shared prefixes, free answers."""
