# holder: words, Vocab, attribute, dict
class Vocab:
    def __init__(self):
        self.words = {}
        for word in open("words"):
            self.words[word] = 1

    def learn(self, text):
        for word in text.split():
            self.words[word] = len(self.words)  # HERE
