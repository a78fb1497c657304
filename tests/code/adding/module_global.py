# holder: CACHE, service, global, dict
CACHE = {}


def lookup(key):
    if key in CACHE:
        return CACHE[key]
    CACHE[key] = value = compute(key)  # HERE
    return value
