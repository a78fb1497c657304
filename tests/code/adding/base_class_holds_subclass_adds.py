# holder: errors, Child, attribute, list
class Base:
    def __init__(self):
        self.errors = []


class Child(Base):
    def check(self, error):
        self.errors.append(error)  # HERE


class Unrelated:
    def check(self, error):
        for e in error:
            self.errors.append(e)
