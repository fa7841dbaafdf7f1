"""Inputs that nobody wrote, against the laws: `make fuzz`; CONTRIBUTING.md says how to use it."""
