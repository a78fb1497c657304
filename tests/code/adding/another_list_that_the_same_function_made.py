# holder: seen, Loader, attribute, list
def made():
    rows = []
    return rows


class Loader:
    def __init__(self):
        self.seen = made()
        self.pending = made()

    def step(self, item):
        self.pending.append(item)
        self.seen += [item]  # HERE
