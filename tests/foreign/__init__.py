"""Test suites that nobody here wrote, bare and recorded in stress mode: their outcomes must not differ."""
