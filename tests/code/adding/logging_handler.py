# holder: buffer, Keep, attribute, list
import logging


class Keep(logging.Handler):
    def __init__(self):
        super().__init__()
        self.buffer = []

    def emit(self, record):
        self.buffer.append(self.format(record))  # HERE
