# holder: pending, Q, attribute, dict
class Q:
    def __init__(self):
        self.pending = {}
        self.pending["x"] = 1

    def submit(self, k, v):
        self.pending[k] = v  # HERE

    def done(self, k):
        self.pending.pop(k, None)


def main():
    q = Q()
    for i in range(9):
        q.submit(i, 1)
