from __future__ import annotations

import pytest

from judgebench.runtime.secrets import looks_secret, mask_secrets


@pytest.mark.parametrize(
    "key",
    ["key", "api_key", "apiKey", "APIKEY", "OPENAI_API_KEY", "hf_token", "HFToken", "client_secret", "password",
     "PASSWD", "Authorization", "secret_access_key", "api-key", "auth_tokens"],
)  # fmt: skip
def test_secret_names(key):
    assert looks_secret(key)


@pytest.mark.parametrize("key", ["tokenizer", "keyboard", "monkey", "score_range", "tokenize_first", "secretary", ""])
def test_harmless_names(key):
    assert not looks_secret(key)


def test_secrets_go_at_any_depth_and_the_rest_stays():
    config = {
        "judge": {"name": "gpt", "api_key": "sk-abc", "headers": [{"Authorization": "Bearer x"}]},
        "keys": ["one", "two"],
        "ranges": [[0, 4], [1, 5]],
    }
    assert mask_secrets(config) == {
        "judge": {"name": "gpt", "api_key": "***", "headers": [{"Authorization": "***"}]},
        "keys": ["***", "***"],
        "ranges": [[0, 4], [1, 5]],
    }


def test_counts_of_tokens_are_no_secrets_but_numeric_passwords_are():
    config = {"max_new_tokens": 5, "tokens": {"total": 10}, "password": 1234, "api_key": None, "use_token": True}
    expected = {"max_new_tokens": 5, "tokens": {"total": 10}, "password": "***", "api_key": None, "use_token": True}
    assert mask_secrets(config) == expected


def test_long_secret_goes_wherever_it_was_copied():
    secret = "sk-0123456789abcdefghij"
    config = {"header": f"Bearer {secret}", "judge": {"token": secret}}
    assert secret not in str(mask_secrets(config))


def test_short_masked_text_erases_nothing_elsewhere():
    assert mask_secrets({"label_key": "coherence", "dimension": "coherence"})["dimension"] == "coherence"


def test_password_in_an_address_goes():
    config = {"storage": "postgresql://me:hunter2@host:5432/db", "url": "http://localhost:8000/v1"}
    assert mask_secrets(config) == {"storage": "postgresql://me:***@host:5432/db", "url": "http://localhost:8000/v1"}


def test_original_is_left_as_it_was():
    config = {"api_key": "sk-abc"}
    mask_secrets(config)
    assert config == {"api_key": "sk-abc"}
