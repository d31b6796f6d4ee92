"""What every test shares: property tests look at the same examples on every machine, and the clock decides nothing."""

from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("searching", deadline=None, max_examples=2000, print_blob=True)
"""`pytest --hypothesis-profile=searching` looks for new examples; a find becomes an `@example`."""
settings.load_profile("repeatable")
