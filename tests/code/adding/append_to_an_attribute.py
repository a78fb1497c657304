# holder: history, Trainer, attribute, list
class Trainer:
    def __init__(self):
        self.history = []

    def step(self, loss):
        self.history.append(loss)  # HERE

    def clear(self):
        self.history.clear()
