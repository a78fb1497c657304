"""Python threads by the outermost user function they run."""

TABLE = "threads"


def rows(take):
    for (function, file, line), count in sorted(take.threads.items(), key=lambda item: -item[1])[:50]:
        yield {"function": function, "owner_file": file, "owner_line": line, "object_count": count, "text": None}
