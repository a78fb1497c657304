# holder: seen, Filter, attribute, set
class Filter:
    def fresh(self, items):
        return [i for i in items if i not in self.seen and not self.seen.add(i)]  # HERE
