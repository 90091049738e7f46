from copy import deepcopy

import pytest

from judgebench.runtime.secrets import looks_secret, mask_secrets

SECRET = ["key", "api_key", "apiKey", "APIKEY", "OPENAI_API_KEY", "hf_token", "HFToken", "client_secret", "password",
          "PASSWD", "Authorization", "secret_access_key", "api-key", "auth_tokens"]  # fmt: skip
HARMLESS = ["tokenizer", "keyboard", "monkey", "score_range", "tokenize_first", "secretary", ""]


@pytest.mark.parametrize("key", [*SECRET, *HARMLESS])
def test_names_of_secrets(key):
    assert looks_secret(key) == (key in SECRET)


LONG = "sk-0123456789abcdefghij"
MASKED = {  # what is masked: a configuration, and what is shown of it
    "at any depth": (
        {"judge": {"name": "gpt", "api_key": "sk-abc", "headers": [{"Authorization": "Bearer x"}]}, "keys": ["a", "b"]},
        {"judge": {"name": "gpt", "api_key": "***", "headers": [{"Authorization": "***"}]}, "keys": ["***", "***"]},
    ),
    "numeric passwords, and no counts of tokens": (
        {"tokens": {"total": 10}, "password": 1234, "api_key": None, "use_token": True, "ranges": [[0, 4]]},
        {"tokens": {"total": 10}, "password": "***", "api_key": None, "use_token": True, "ranges": [[0, 4]]},
    ),
    "a long one wherever it was copied": (
        {"header": f"Bearer {LONG}", "judge": {"token": LONG}},
        {"header": "Bearer ***", "judge": {"token": "***"}},
    ),
    "a short one nowhere else": (
        {"label_key": "coherence", "dimension": "coherence"},
        {"label_key": "***", "dimension": "coherence"},
    ),
    "a password in an address": (
        {"storage": "postgresql://me:hunter2@host:5432/db", "url": "http://localhost:8000/v1"},
        {"storage": "postgresql://me:***@host:5432/db", "url": "http://localhost:8000/v1"},
    ),
}


@pytest.mark.parametrize("what", MASKED)
def test_secrets_go_and_the_rest_stays(what):
    config, shown = MASKED[what]
    before = deepcopy(config)
    assert mask_secrets(config) == shown
    assert config == before
