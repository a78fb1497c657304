# holder: log, Bus, attribute, list
class Bus:
    def handle(self, m):
        if m:
            with self.lock:
                try:
                    self.log.append(m)  # HERE
                finally:
                    pass
