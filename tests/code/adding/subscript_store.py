# holder: cache, Loader, attribute, dict
class Loader:
    def __init__(self):
        self.cache = {}

    def load(self, key):
        if key not in self.cache:
            self.cache[key] = read(key)  # HERE
        return self.cache[key]
