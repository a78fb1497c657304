# holder: rows, Store, attribute, list
class Store:
    def __init__(self):
        self.rows = []


class Page:
    def __init__(self):
        self.rows = []


class View:
    def __init__(self, target):
        self.target = target

    def show(self, x):
        self.target.rows.append(x)


class Service:
    def __init__(self, target):
        self.target = target

    def handle(self, x):
        self.target.rows += [x]  # HERE


View(Page()).show(1)
service = Service(Store())
while True:
    service.handle(1)
