"""The minilm model: the all-MiniLM-L6-v2 sentence encoder, with its published weights."""
