"""Configuration: its fields, keys and rules, and the command line that it is composed by."""
