# holder: queue, Scheduler, attribute, list
import heapq


class Scheduler:
    def at(self, when, job):
        heapq.heappush(self.queue, (when, job))  # HERE

    def next(self):
        return heapq.heappop(self.queue)
