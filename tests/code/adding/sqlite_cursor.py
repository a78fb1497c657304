# holder: db, main, local, sqlite3.Connection
import sqlite3


def main():
    db = sqlite3.connect(":memory:")
    cur = db.cursor()
    cur.execute("create table t (x)")
    while True:
        cur.execute("INSERT INTO t VALUES (1)")  # HERE
        db.commit()
