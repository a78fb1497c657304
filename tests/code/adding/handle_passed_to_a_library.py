# holder: handle, Native, attribute, ctypes.c_void_p
import lib


class Native:
    def __init__(self):
        self.handle = lib.open()

    def feed(self, x):
        lib.table_put(self.handle, x)  # HERE
