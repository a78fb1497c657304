"""Every command on every Python that leakscope says it runs on: each Python has an environment in build/pythons."""
