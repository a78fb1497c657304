"""What the remedy says beside removing members, where the recording shows what these keep."""

from __future__ import annotations

import pytest

from . import RECORDINGS, judge

pytestmark = pytest.mark.golden

SAID = {
    "retained_objects_numpy_views-leaky": ".copy() of the part",
    "retained_objects_stored_exceptions-leaky": "error.with_traceback(None)",
    "activation_hooks_left_on-leaky": "call its remove()",
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", SAID)
def test_the_remedy_is_of_what_the_members_keep(name: str) -> None:
    finding, *_ = judge(RECORDINGS / f"{name}.parquet")["findings"]
    assert any(SAID[name] in advice for advice in finding["remedy"])
