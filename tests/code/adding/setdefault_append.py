# holder: groups, collect, local, dict
def collect(events):
    groups = {}
    for event in events:
        groups.setdefault(event.kind, []).append(event)  # HERE
