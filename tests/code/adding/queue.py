# holder: jobs, Pool, attribute, queue.Queue
import queue


class Pool:
    def __init__(self):
        self.jobs = queue.Queue()

    def submit(self, job):
        self.jobs.put(job)  # HERE

    def take(self):
        return self.jobs.get()
