"""An attribute that is computed when first asked for, without the lock that `functools.cached_property` takes in 3.11.

For values owned by one thread on hot paths, where that lock is most of the cost. An error is not kept: asking again
computes again.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):  # noqa: N801 - reads as the word it is: `@once`
    """Decorator of a method without arguments; the first result takes its place in the instance's `__dict__`."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> "once[T]": ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> "once[T] | T":
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
