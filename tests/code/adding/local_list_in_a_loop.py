# holder: rows, main, local, list
def main():
    rows = []
    rows.append("header")
    for n in range(10):
        rows.append(n)  # HERE
    return len(rows)
