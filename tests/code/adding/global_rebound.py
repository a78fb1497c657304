# holder: total, service, global, bytes
total = b""


def receive(chunk):
    global total
    total += chunk  # HERE
