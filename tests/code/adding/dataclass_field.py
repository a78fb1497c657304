# holder: points, Trace, attribute, list
from dataclasses import dataclass, field


@dataclass
class Trace:
    points: list = field(default_factory=list)


class Recorder:
    def __init__(self):
        self.trace = Trace()

    def on_step(self, p):
        self.trace.points.append(p)  # HERE
