# holder: rooms, Chat, attribute, dict
class Chat:
    def say(self, room, text):
        lines = self.rooms.get(room)
        if lines is not None:
            lines.append(text)  # HERE
