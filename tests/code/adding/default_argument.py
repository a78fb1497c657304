# holder: seen, visit, default, list
def visit(node, seen=[]):
    seen.append(node)  # HERE
    return len(seen)
