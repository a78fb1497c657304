# holder: trace, main, local, numpy.ndarray
import numpy as np


def main():
    trace = np.zeros(0)
    for n in range(100):
        trace = np.append(trace, n)  # HERE
