# holder: registry, Plugin, class-attribute, dict
class Plugin:
    registry = {}

    @classmethod
    def create(cls, name):
        cls.registry[name] = cls()  # HERE
        return cls.registry[name]
