"""A tutor writes the references that a judge compares with: standard vectors, steering, references (CAP, section 4)."""
