# holder: memo, Memo, attribute, dict
class Memo:
    def __init__(self, f):
        self.f, self.memo = f, {}

    def __call__(self, *a):
        try:
            return self.memo[a]
        except KeyError:
            r = self.memo[a] = self.f(*a)  # HERE
            return r
