# holder: events, main, local, list
def main(bus):
    events = []
    bus.on("x", lambda e: events.append(e))  # HERE
    bus.run()
