"""Python threads by the outermost user function that they run, or wait to run (``text``: in what)."""

TABLE = "threads"


def rows(take):
    for (function, file, line, waits), count in sorted(take.threads.items(), key=lambda item: -item[1])[:50]:
        yield {"function": function, "owner_file": file, "owner_line": line, "object_count": count, "text": waits}
