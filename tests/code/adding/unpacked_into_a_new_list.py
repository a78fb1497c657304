# holder: items, Store, attribute, list
class Store:
    def __init__(self):
        self.items = []

    def add(self, item):
        self.items = [*self.items, item]  # HERE
