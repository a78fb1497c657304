"""Parsers of XML that wait in the middle of a document: their stacks are lists with slots that hold nothing."""

from xml.etree.ElementTree import XMLPullParser

from busy import rounds

waiting = []
done = 0
for number in rounds():
    parser = XMLPullParser(["start", "end"])
    parser.feed("<a>" * (number % 30 + 1) + "<b>text<c")
    waiting.append(parser)
    if len(waiting) > 200:
        for parser in waiting[:100]:
            events = list(parser.read_events())
            done += bool(events)
        del waiting[:100]
print(done > 0)
