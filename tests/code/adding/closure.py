# holder: calls, counted.<locals>.inner, cell, list
def counted(f):
    calls = []

    def inner(*args):
        calls.append(args)  # HERE
        return f(*args)

    return inner
