# holder: instances, Base, class-attribute, list
class Base:
    instances = []

    def opened(self):
        type(self).instances.append(self)  # HERE
