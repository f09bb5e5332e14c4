"""The parser of server-sent events."""

from __future__ import annotations

import pytest

from atoll._sse import Parser

STREAM = b"id: 1-0\nevent: output\ndata: {\"a\":\ndata: 1}\n\n: \n\ndata: plain\r\n\r\nid: 2-0\ndata: x\n\n"


@pytest.mark.parametrize("size", range(1, 60))
def test_events_are_the_same_however_they_are_cut(size: int) -> None:
    parser = Parser()
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    events = [event for piece in pieces for event in parser.feed(piece)]
    assert [(event.kind, event.data, event.last_id) for event in events] == [
        ("output", '{"a":\n1}', "1-0"),
        ("message", "plain", "1-0"),
        ("message", "x", "2-0"),
    ]


def test_an_id_counts_when_its_event_is_whole() -> None:
    parser = Parser("0-0")
    assert list(parser.feed(b"id: 9-0\nevent: output\ndata: cut in the mid")) == []
    assert parser.last_id == "0-0"
    assert len(list(parser.feed(b"dle\n\n"))) == 1
    assert parser.last_id == "9-0"
