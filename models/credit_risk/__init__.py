"""The credit-risk model: embeddings of categorical columns beside numeric ones, on the German credit data."""
