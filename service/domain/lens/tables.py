"""Where each single fact stands in the words of a State document, and as what it is read."""

from service.domain.facts import Fact
from service.domain.readers import Path, Reader, Word, digest, flag, identifier, moment_ms, number, read, text

JOB_FACTS: dict[str, tuple[Path, Reader]] = {
    "created_at": (("createdAt",), moment_ms),
    "phase": (("state", "phase"), text),
    "round": (("state", "round"), number),
    "completed_passes": (("state", "completedPasses"), number),
    "started_at": (("state", "startedAt"), moment_ms),
    "finished_at": (("state", "finishedAt"), moment_ms),
    "progress_round": (("progress", "round"), number),
    "progress_of": (("progress", "of"), number),
    "snapshot_interval_ms": (("settings", "snapshotIntervalMs"), number),
    "stale_after_ms": (("settings", "staleAfterMs"), number),
    "units_per_assignment": (("settings", "experience", "unitsPerAssignment"), number),
    "has_module_file": (("hasModuleFile",), flag),
    "initial_sha256": (("initialSha256",), digest),
    "wasm_sha256": (("executionFiles", "wasm", "sha256"), digest),
    "shader_archive_sha256": (("executionFiles", "wgsl", "sha256"), digest),
    "local_workers": (("localWorkers",), number),
}
PAGE_FACTS: dict[str, tuple[Path, Reader]] = {
    "is_visible": (("visible",), flag),
    "storage_used_bytes": (("storage", "usedBytes"), number),
    "backend_preference": (("preferences", "backend"), text),
}
LIMIT_FACTS: dict[str, tuple[Path, Reader]] = {
    "max_local_workers": (("preferences", "maxLocalWorkers"), number),
    "gpu_memory_budget_mib": (("preferences", "gpuMemoryBudgetMiB"), number),
}
"""Limits that a user set. The GPU budget is one of them and measures nothing."""
PARTICIPANT_FACTS: dict[str, tuple[Path, Reader]] = {
    "name": (("name",), text),
    "status": (("status",), text),
    "last_seen_at": (("lastSeenAt",), moment_ms),
    "is_stale_by_page": (("stale",), flag),
}
EXECUTION_FACTS: dict[str, tuple[Path, Reader]] = {
    "requested_backend": (("execution", "requestedBackend"), text),
    "backend": (("execution", "backend"), text),
    "gpu_available": (("execution", "gpuAvailable"), flag),
    "fallback_reason": (("execution", "fallbackReason"), text),
    "browser": (("execution", "browser"), text),
    "workers": (("execution", "workers"), number),
    "stage": (("execution", "stage"), text),
    "stage_sequence": (("execution", "stageSeq"), number),
    "stage_started_at": (("execution", "stageStartedAt"), moment_ms),
    "assignment_id": (("execution", "assignment", "id"), identifier),
    "assignment_round": (("execution", "assignment", "round"), number),
    "assignment_units": (("execution", "assignment", "units"), number),
    "batch_size": (("execution", "batch", "size"), number),
    "local_steps": (("execution", "batch", "localSteps"), number),
    "compute_only_samples_per_second": (("execution", "computeOnlySamplesPerSecond"), number),
    "model_sha256": (("execution", "modelSha256"), digest),
    "shader_sha256": (("execution", "shaderSha256"), digest),
}
TRANSFER_FACTS: dict[str, tuple[Path, Reader]] = {
    "participant": (("transfer", "participant"), identifier),
    "direction": (("transfer", "direction"), text),
    "bytes": (("transfer", "bytes"), number),
    "total_bytes": (("transfer", "totalBytes"), number),
}
CHECKPOINT_FACTS: dict[str, tuple[Path, Reader]] = {
    "round": (("round",), number),
    "checkpoint_format": (("version",), number),
    "sha256": (("sha256",), digest),
    "parent_sha256": (("parentSha256",), digest),
    "size_bytes": (("bytes",), number),
    "created_at": (("createdAt",), moment_ms),
}


def read_all(word: Word | None, table: dict[str, tuple[Path, Reader]], position: int | None) -> dict[str, Fact]:
    """Every fact of one of the tables above, read from one word."""
    return {name: read(word, path, reader, position) for name, (path, reader) in table.items()}
