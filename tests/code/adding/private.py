# holder: _Store__rows, Store, attribute, list
class Store:
    def __init__(self):
        self.__rows = []

    def put(self, x):
        self.__rows.append(x)  # HERE
