"""What the sample models share: recipes, stamps, golden files, quality figures."""
