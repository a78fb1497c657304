# holder: hooks, Probe, attribute, list
class Probe:
    def __init__(self, model):
        self.hooks = []

    def attach(self, m):
        self.hooks.append(m.register_forward_hook(self.keep))  # HERE

    def keep(self, m, i, o):
        pass
