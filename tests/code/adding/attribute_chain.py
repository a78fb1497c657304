# holder: keys, Bank, attribute, list
class Bank:
    def __init__(self):
        self.keys = []


class Model:
    def forward(self, x):
        self.bank.keys.append(x)  # HERE
        for key in self.batch.keys():
            pass
