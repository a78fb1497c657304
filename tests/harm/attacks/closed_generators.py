"""Frames of generators that were closed, kept by somebody: since Python 3.13 what is in their slots is left over."""

from busy import rounds


def generate(one):
    held = [one]
    yield held


def closed_frame(number):
    made = generate([number])
    frame = made.gi_frame
    next(made)
    made.close()
    return frame


frames = [closed_frame(number) for number in range(200)]
for number in rounds():
    frames[number % 200] = closed_frame(number)
print(len(frames))
