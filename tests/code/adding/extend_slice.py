# holder: buf, Reader, attribute, builtins.bytearray
class Reader:
    def feed(self, data):
        self.buf[len(self.buf) :] = data  # HERE

    def peek(self):
        return self.buf[0]
