# holder: rows, Table, attribute, list
class Table:
    def read(self, stream):
        append = self.rows.append
        for row in stream:
            append(row)  # HERE
