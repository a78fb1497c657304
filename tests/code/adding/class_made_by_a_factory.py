# holder: _seen, parse, attribute, dict
from queues import App, Task

app = App()


class ParseTask(Task):
    _seen = None

    @property
    def seen(self):
        if self._seen is None:
            self._seen = {}
        return self._seen


@app.task(base=ParseTask)
def parse(self, number, text):
    self.seen[number] = text.split()  # HERE
