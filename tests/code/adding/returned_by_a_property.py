# holder: _rows, Store, attribute, list
class Store:
    @property
    def rows(self):
        return self._rows


def main(store):
    for n in range(5):
        store.rows.append(n)  # HERE
