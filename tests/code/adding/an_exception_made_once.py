# holder: closed, Gate, attribute, __main__.Closed
class Closed(Exception):
    pass


class Gate:
    def __init__(self):
        self.closed = Closed("closed")

    def check(self):
        raise self.closed  # HERE


def main():
    gate = Gate()
    while True:
        try:
            gate.check()
        except Closed:
            pass
