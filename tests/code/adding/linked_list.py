# holder: head, Undo, attribute, Node
class Node:
    def __init__(self, value, next):
        self.value, self.next = value, next


class Undo:
    def __init__(self):
        self.head = None

    def push(self, value):
        self.head = Node(value, self.head)  # HERE
