"""Models that run here: shared prefixes in packed rows, the plain engine that proves them, and
encoder-decoder models.

Shapes stand in brackets, in docstrings and behind the lines that make a tensor of a new shape:
`[prompts, heads, tokens, dim]`. A name is a size, and means the same everywhere:

    prompts       of a batch, in its order; groups: those of one article
    tokens        of a packed row, or of what is being read; positions count along a prompt
    root          tokens that all prompts begin with, read by themselves
    heads         of attention, those of queries; kv heads: those of keys and values, each of
                  which serves several of the others
    dim           features of one head; hidden: of a token's state between layers
    queries       tokens that look, and keys: those that are looked at
    stretches     neighbors of a row that attend together; count: of one size, as a batch
    branches      inner nodes of the candidate trie, its root (the prompt) first; inner: without it
    candidates    scores that may be given; children: tokens that go on from a branch
    exits         layers whose states the head reads, the last one among them
    vocabulary    of the head, padding included
    width, room   tokens of the longest, or tokens that there is place for
    rows          of a matrix, whatever they are; contexts: of a padded block
    1             a batch of one row, as transformers wants it

`a -> b` is what comes in and what goes out. A dtype follows where it is not the model's own, as in
`[prompts, candidates] float64`.
"""
