"""Archives on every shelf, and small valid artifacts to break."""

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from moto.server import ThreadedMotoServer
from obstore.store import LocalStore, MemoryStore, S3Store

from service.artifacts.archive import Archive, Shelf
from service.artifacts.checkpoint_format import Checkpoint, Contribution, Metrics, Optimizer
from service.artifacts.folder_shelf import FolderShelf
from service.artifacts.object_shelf import ObjectShelf

SIZE_BYTES_MAX = 64 * 1024 * 1024
SHELVES = ["folder", "obstore-folder", "obstore-memory", "obstore-s3"]


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """A bucket `retrace` on a local server that speaks S3."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    httpx.put(f"{endpoint}/retrace").raise_for_status()
    yield endpoint
    server.stop()


@pytest.fixture(params=SHELVES)
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Shelf:
    """One of the shelves, empty."""
    if request.param == "folder":
        return FolderShelf(tmp_path / "artifacts")
    if request.param == "obstore-folder":
        return ObjectShelf(LocalStore(tmp_path / "artifacts", mkdir=True))
    if request.param == "obstore-memory":
        return ObjectShelf(MemoryStore())
    return ObjectShelf(
        S3Store(
            "retrace", prefix=tmp_path.name, region="us-east-1", endpoint=request.getfixturevalue("s3_endpoint"),
            access_key_id="x", secret_access_key="x", client_options={"allow_http": True},
        )
    )  # fmt: skip


@pytest.fixture
def archive(shelf: Shelf, tmp_path: Path) -> Archive:
    """An archive on that shelf."""
    return Archive(shelf, tmp_path / "incoming", SIZE_BYTES_MAX)


@pytest.fixture
def folder_archive(tmp_path: Path) -> Archive:
    """An archive in a folder, for what only a folder can suffer."""
    return Archive(FolderShelf(tmp_path / "artifacts"), tmp_path / "incoming", SIZE_BYTES_MAX)


MODULE_SHA256 = "5e" * 32


@pytest.fixture
def peak_bytes() -> Callable[[Callable[[], Any]], int]:
    """Runs something and gives the most memory that it held at once."""

    def measured(action: Callable[[], Any]) -> int:
        tracemalloc.start()
        try:
            action()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return measured


@pytest.fixture
def checkpoint_of() -> Callable[..., Checkpoint]:
    """Makes a small checkpoint of either format; keywords replace fields."""

    def make(checkpoint_format: int, **fields: Any) -> Checkpoint:
        weights = {
            "dense.weight": np.arange(6, dtype="<f4").reshape(2, 3) / np.float32(4) - np.float32(0.5),
            "dense.bias": np.array([0.25, -1.0, 3.5], dtype="<f4"),
        }
        values: dict[str, Any] = {
            "checkpoint_format": checkpoint_format, "job": "job-1", "round": 3, "module_sha256": MODULE_SHA256,
            "weights": weights,
        }  # fmt: skip
        if checkpoint_format == 2:
            values |= {
                "optimizer": Optimizer("FedAvgM", 3, {"momentum": "0.7", "learning_rate": "1.0"}),
                "optimizer_tensors": {
                    f"velocity/{name}": (array * 0.5).astype("<f8") for name, array in weights.items()
                },
                "parent_sha256": "ab" * 32,
                "contributions": [Contribution("a-7", "p1", 120, "cd" * 32), Contribution("a-8", "p2", 80)],
                "formula": "fedavgm-velocity",
                "metrics": Metrics({"loss": 0.5, "accuracy": 0.875}, {"loss": float("nan"), "accuracy": None}),
            }
        return Checkpoint(**values | fields)

    return make
