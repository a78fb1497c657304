"""A fleet that never was: ordinary recordings of jobs, a service and nightly runs, with planted faults and their truth.

``python -m leakscope.fleet.synthetic FOLDER`` writes one, for tests, benchmarks and the tutorial. The samples of a
recording are drawn, and its footer says what a report of the whole run would have said: the rows of the agent are not
there.
"""
