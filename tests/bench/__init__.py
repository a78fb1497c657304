"""What recording costs, beside its budgets: ``python -m tests.bench`` (``make bench``)."""
