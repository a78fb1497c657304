# holder: ranked, rank, local, list
from bisect import insort


def rank(values):
    ranked = []
    for value in values:
        insort(ranked, value)  # HERE
