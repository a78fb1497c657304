# holder: rows, main, local, list
def other():
    rows = []
    for n in range(3):
        rows.append(n)


def main():
    rows = []
    while True:
        rows.append(1)  # HERE
