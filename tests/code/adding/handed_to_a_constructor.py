# holder: samples, main, local, list
class Probe:
    def __init__(self, sink):
        self.sink = sink

    def read(self):
        self.sink.append(1)  # HERE


def main():
    samples = []
    probe = Probe(samples)
    while True:
        probe.read()
