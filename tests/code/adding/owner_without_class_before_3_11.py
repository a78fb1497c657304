# holder: buf, step, local, list
class A:
    def step(self):
        buf = []
        while True:
            buf.append(1)  # HERE
