# holder: items, Ring, attribute, list
class Ring:
    def push(self, item):
        if len(self.items) < 10:
            self.items.append(item)  # HERE
        else:
            self.items[self.at] = item
