# holder: engine, db, global, sqllib.Engine
import sqllib

engine = sqllib.create("memory://")


def handle(number):
    seen = [number]

    def before(statement):
        seen[0] = statement

    sqllib.event.listen(engine, "before", before)  # HERE
    with engine.connect() as connection:
        connection.run("select 1")


def main():
    while True:
        handle(1)
