# holder: maps, Planner, attribute, dict
class Planner:
    def publish(self, hour):
        heat = self.maps[hour] = Heat(hour)  # HERE
        heat.paint()
