# holder: groups, Index, attribute, dict
class Index:
    def note(self, key, value):
        if key not in self.groups:
            self.groups[key] = []
        self.groups[key].append(value)  # HERE
