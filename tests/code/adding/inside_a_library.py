# holder: loggerDict, Manager, attribute, dict, logging, /usr/lib/python3/logging/__init__.py
import logging

logging.basicConfig()


def handle(n):
    log = logging.getLogger(f"request.{n}")  # HERE
    log.debug("hello")


def main():
    for n in range(9):
        handle(n)
