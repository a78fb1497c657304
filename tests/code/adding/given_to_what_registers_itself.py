# holder: REGISTRY, app, global, metricslib.Registry
from metricslib import Gauge, Registry

REGISTRY = Registry()


def train(run):
    gauge = Gauge(f"loss of {run}", registry=REGISTRY)  # HERE
    gauge.set(1.0)
    print(REGISTRY)


def main():
    for run in range(9):
        train(run)
