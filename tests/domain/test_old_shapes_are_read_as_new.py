"""Upcasters: one pure step per version; stored documents are never written into; a second time changes nothing."""

import copy
from typing import Any

import pytest

from service.domain.events import STATE_REPORTED
from service.domain.upcasters import upcast

SHAPES: list[tuple[Any, Any]] = [
    ({"rounds": 10}, {"epochs": 10}),
    ({"epochs": 12}, {"epochs": 12}),
    ({"rounds": 12, "epochs": 12}, {"epochs": 12}),
    ({"rounds": 10, "epochs": 12}, {"rounds": 10, "epochs": 12}),
    ({}, {}),
    ("text", "text"),
]


@pytest.mark.parametrize(("old", "new"), SHAPES)
def test_legacy_rounds_become_epochs_unless_they_contradict(old: Any, new: Any) -> None:
    document = {"job": {"settings": old, "state": {"round": 3}}}
    before = copy.deepcopy(document)
    once = upcast(STATE_REPORTED, 1, document)
    assert once == {"job": {"settings": new, "state": {"round": 3}}}
    assert upcast(STATE_REPORTED, 1, once) == once
    assert document == before


@pytest.mark.parametrize("document", [None, 3, [], {}, {"job": None}, {"job": []}])
def test_documents_without_settings_pass_unchanged(document: Any) -> None:
    assert upcast(STATE_REPORTED, 1, document) == document


def test_newer_shape_is_read_as_it_is() -> None:
    document = {"job": {"settings": {"rounds": 10}}}
    assert upcast(STATE_REPORTED, 9, document) is document
