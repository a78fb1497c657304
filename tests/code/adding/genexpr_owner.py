# holder: seen, main.<locals>.<genexpr>, local, set
def main():
    seen = set()
    return list(x for x in stream() if not seen.add(x))  # HERE
