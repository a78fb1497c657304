# holder: seen, Watch, attribute, list
class Watch:
    def __init__(self):
        self.seen = []

    def once(self, first):
        self.seen.append(first)

    def start(self, name):
        self.seen.append(name)  # HERE


class Run(Trainer):
    def __init__(self):
        self.watch = Watch()
        self.watch.once("begin")

    def training_step(self, batch):
        self.watch.start("step")
        return super().training_step(batch)


Run().train()
