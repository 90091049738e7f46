"""What scripts/fuzz.py tries: each module makes odd cases for one kind of input, and says what must hold of them."""
