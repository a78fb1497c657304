# holder: by_user, Index, attribute, collections.defaultdict
from collections import defaultdict


class Index:
    def __init__(self):
        self.by_user = defaultdict(list)

    def note(self, user, event):
        self.by_user[user].append(event)  # HERE
