# holder: data, Db, attribute, dict
class Db:
    def __init__(self):
        self.data = {}

    def add(self, a, b, v):
        self.data[a][b].append(v)  # HERE
