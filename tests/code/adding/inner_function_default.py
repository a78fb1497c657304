# holder: acc, main.<locals>.f, default, list
def main():
    def f(x, acc=[]):
        acc += [x]  # HERE
        return acc
