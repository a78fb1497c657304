# holder: seen, Loader, attribute, seen.Seen
class Loader:
    def __init__(self):
        self.seen = Seen()
        self.pending = []

    def step(self, item):
        self.seen.register_item(item)  # HERE
        self.pending.append(item)
        show(self.seen)
        show(self.pending)


def show(rows):
    print(len(rows))
