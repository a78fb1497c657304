# holder: _jobs_index, MemoryJobStore, attribute, dict, scheduling.jobstores, /venv/scheduling/jobstores.py
from scheduling import Scheduler
class Orders:
    def __init__(self):
        self.scheduler = Scheduler()
        self.scheduler.start()
    def place(self, order):
        self.scheduler.add_job(order.poll, "interval", seconds=3600)  # HERE
def main():
    orders = Orders()
    while True:
        orders.place(next_order())
