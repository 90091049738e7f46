"""Words: errors as sentences, numbers as text, templates of sentences, and what a terminal may show."""
