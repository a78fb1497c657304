# holder: acts, main, local, dict
def main(model):
    acts = {}

    def make(name):
        def hook(m, i, o):
            acts.setdefault(name, []).append(o)  # HERE

        return hook

    for n, m in model.named_modules():
        m.register_forward_hook(make(n))
