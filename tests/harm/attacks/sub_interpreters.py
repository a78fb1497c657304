"""Interpreters within the process, made and ended one after another."""

from busy import rounds

try:
    import _interpreters as interpreters

    run = interpreters.exec
except ImportError:
    import _xxsubinterpreters as interpreters

    run = interpreters.run_string
for number in rounds():
    if number < 40:
        one = interpreters.create()
        run(one, "import json; held = [json.dumps([1])] * 10")
        interpreters.destroy(one)
print(number > 0)
