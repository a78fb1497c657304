# holder: _instances, Single, class-attribute, dict
class Single(type):
    _instances = {}

    def __call__(cls, *args):
        key = (cls, args)
        if key not in cls._instances:
            cls._instances[key] = super().__call__(*args)  # HERE
        return cls._instances[key]
