# holder: current, trace, global, _contextvars.ContextVar
current = contextvars.ContextVar("current", default=None)


def within(name):
    token = current.set(Span(name, current.get()))
    yield
    current.reset(token)


def start(name):
    current.set(Span(name, current.get()))  # HERE
