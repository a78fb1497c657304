# holder: table, f, local, dict
def f(pairs):
    table = {}
    for key, value in pairs:
        last, table[key] = key, value  # HERE
