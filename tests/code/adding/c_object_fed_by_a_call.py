# holder: parser, Feed, attribute, pyexpat.xmlparser
class Feed:
    def __init__(self):
        self.parser = make()
        self.parser.configure(1)

    def receive(self, chunk):
        self.parser.Parse(chunk)  # HERE


def main():
    feed = Feed()
    while True:
        feed.receive(b"<a/>")
