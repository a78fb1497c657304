# holder: losses, state, attribute, list
from types import SimpleNamespace


def main():
    state = SimpleNamespace(losses=[])
    for i in range(9):
        state.losses.append(loss(i))  # HERE
