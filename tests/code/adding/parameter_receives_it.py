# holder: history, main, local, list
def note(rows, value):
    rows.append(value)  # HERE


def main():
    history = []
    for n in range(5):
        note(history, n)
