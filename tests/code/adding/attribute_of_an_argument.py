# holder: history, Trainer, attribute, list
class Monitor:
    def __init__(self):
        self.history = []


class Trainer:
    def __init__(self):
        self.history = []


def watch(monitor, x):
    monitor.history.append(x)


def step(trainer, x):
    trainer.history += [x]  # HERE


def main():
    trainer, monitor = Trainer(), Monitor()
    while True:
        watch(monitor, 1)
        step(trainer, 1)
