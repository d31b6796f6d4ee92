"""Benchmarks: each prints a table of ratios measured in one run and writes it as JSON under build/bench."""
