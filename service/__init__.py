"""Retrace: the flight recorder of distributed neural training. See docs/architecture.md for a tour."""
