"""Target cpu: AOTInductor kernels for the host's architecture, one shared object that a card maps and runs."""
