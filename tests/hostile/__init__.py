"""Attacks: cards, servers, files and texts that somebody else has made, to learn, to spend, to hang or to mislead."""
