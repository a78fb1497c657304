# holder: history, main, local, list
class Writer:
    def note(self, value, into=None):
        into.append(value)  # HERE


def main():
    history = []
    writer = Writer()
    for n in range(5):
        writer.note(n, into=history)
