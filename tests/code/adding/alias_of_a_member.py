# holder: buckets, Sharder, attribute, dict
class Sharder:
    def put(self, key, value):
        bucket = self.buckets[key % 8]
        bucket.append(value)  # HERE
