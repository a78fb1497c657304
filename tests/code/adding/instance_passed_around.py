# holder: items, Store, attribute, list
class Store:
    def __init__(self):
        self.items = []


class Other:
    def __init__(self):
        self.items = []

    def go(self):
        for i in range(9):
            self.items.append(i)


def fill(store, n):
    store.items.append(n)  # HERE


def main():
    s = Store()
    for n in range(9):
        fill(s, n)
