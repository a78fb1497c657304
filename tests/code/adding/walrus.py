# holder: seen, Dedupe, attribute, set
class Dedupe:
    def __init__(self):
        self.seen = set()

    def new(self, item):
        if (known := self.seen) is not None:
            known.add(item)  # HERE
