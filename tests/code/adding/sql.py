# holder: db, Log, attribute, sqlite3.Connection
class Log:
    def __init__(self):
        self.db.execute("create table t (x)")

    def note(self, x):
        self.db.execute("select 1")
        self.db.execute("insert into t values (?)", (x,))  # HERE
