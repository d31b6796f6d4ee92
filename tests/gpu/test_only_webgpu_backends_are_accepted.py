"""Without a Vulkan driver an OpenGL adapter may come in its place: it is refused by name, and the reference runs."""

import sys
from pathlib import Path

import pytest

from service.replay import ReplayEngine
from service.settings import Settings
from tests.replay.package import demo_job

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="VK_DRIVER_FILES hides the only backend on Linux alone")


@pytest.fixture(autouse=True)
def no_vulkan_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VK_DRIVER_FILES", "/nonexistent")


@pytest.mark.parametrize("backend", ["Vulkan", None])
def test_without_a_vulkan_driver_the_reference_runs_and_says_why(
    backend: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend is None:
        monkeypatch.delenv("WGPU_BACKEND_TYPE", raising=False)
    else:
        monkeypatch.setenv("WGPU_BACKEND_TYPE", backend)
    engine = ReplayEngine(Settings(data=str(tmp_path)))
    hello, found, asked = engine.adapters(), engine.judge(demo_job()), engine.judge(demo_job(engine="gpu"))
    engine.close()
    assert hello.adapter is None
    assert any(words in (hello.gpu_reason or "") for words in ("Request adapter failed", "through OpenGL, wanted one"))
    assert (found.verdict, found.engine, found.engine_reason) == ("reproduced", "reference", hello.gpu_reason)
    assert (asked.verdict, asked.code) == ("cannot-run", "no_gpu")
