"""The commands of `judgebench`: one module a word, and the grammar that all share."""
