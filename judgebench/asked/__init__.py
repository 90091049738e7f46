"""What a configuration asks for, part by part: each checked by itself and against its neighbors, with the key named."""
