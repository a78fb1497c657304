# holder: seen, Loader, attribute, list
def checked(rows):
    assert rows is not None
    return rows


class Loader:
    def step(self, item):
        checked(self.pending).append(item)
        checked(self.seen).append_item(item)  # HERE
