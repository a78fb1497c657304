# holder: lanes, Belt, attribute, list
class Belt:
    def tick(self, item):
        for lane in self.lanes:
            lane.append(item)  # HERE
