# holder: rows, A, attribute, list
class A:
    def log(self, a):
        (
            self.rows.append(a)  # HERE
        )
