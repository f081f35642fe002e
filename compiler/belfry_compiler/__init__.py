"""Compiles exported PyTorch programs (`.pt2`) to artifacts that Belfry's cards run. See compiler/README.md."""

__version__ = "0.1.0"
