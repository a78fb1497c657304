# holder: futures, Crawler, attribute, list
class Crawler:
    def __init__(self, pool):
        self.futures = []
        self.pool = pool

    def go(self, u):
        f = self.pool.submit(fetch, u)
        self.futures.append(f)  # HERE
