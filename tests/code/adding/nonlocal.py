# holder: log, make.<locals>.note, cell, str
def make():
    log = ""

    def note(text):
        nonlocal log
        log += text  # HERE

    return note
