# holder: history, main, local, __main__.History
class History(list):
    def note(self, x):
        self.append(x)  # HERE


def main():
    history = History()
    for i in range(9):
        history.note(i)
