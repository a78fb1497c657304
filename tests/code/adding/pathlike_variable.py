# holder: main() rows[*], main, local, list
def main():
    rows = []
    for i in range(3):
        rows.append(i)  # HERE
