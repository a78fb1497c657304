# holder: lines, Log, attribute, list
class Log:
    lines = []

    def write(self, text):
        self.lines += [text]  # HERE
