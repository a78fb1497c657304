# holder: rows, run, local, list
class T:
    def __init__(self):
        self.rows = []

    def run(self):
        rows = self.rows
        while True:
            self.step()

    def step(self):
        self.rows.append(1)  # HERE
