"""A background loop that fails says so in its health and tries again; nothing is swallowed."""

import threading

from service.loops import Loop


def test_error_is_kept_after_the_step_works_again() -> None:
    works = threading.Event()
    tries: list[int] = []

    def step(stopping: threading.Event) -> None:
        tries.append(len(tries))
        if len(tries) == 1:
            raise OSError("disk is away")
        works.set()
        stopping.wait()

    loop = Loop("views", step, clock=lambda: 0)
    loop.start()
    assert works.wait(30)
    loop.stop()

    assert loop.health.last_error == "OSError: disk is away"
    assert loop.health.last_error_at == "1970-01-01T00:00:00.000000Z"
    assert (loop.health.failures, loop.health.is_running) == (0, False)
