# holder: log, run, local, str
def run(events):
    log = ""
    for event in events:
        log = log + str(event)  # HERE
