# holder: events, consume, local, list
def consume(events):
    while True:
        if events:
            print(events[-1])


def main():
    events = []
    t = Thread(target=consume, args=(events,))
    while True:
        events.append(read())  # HERE
