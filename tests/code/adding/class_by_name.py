# holder: live, Session, class-attribute, set
class Session:
    live = set()

    def __init__(self):
        Session.live.add(self)  # HERE


def main():
    for n in range(9):
        Session()
