"""Judges behind a URL: whatever speaks the OpenAI protocol."""
