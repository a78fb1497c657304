# holder: tick, , global, blinker.base.Signal
tick = Signal()


class View:
    def __init__(self, name):
        self.rows = load(name)
        tick.connect(lambda sender: self.refresh(), sender=name)  # HERE

    def refresh(self):
        self.rows = load(self.name)


def main():
    while True:
        view = View("a")
        for _ in range(3):
            tick.send("a", best=1)
