"""One replay in this process, without a GPU: what is missing is named, what is wrong is refused, the rest is judged."""

from typing import Any

import msgspec
import numpy as np
import pytest

from service.artifacts.checkpoint_format import Metrics
from service.artifacts.tensor_file import read_tensors, write_tensors
from service.demo.package_builder import build_package
from service.replay import Judgement, ReplayJob, result_document
from service.replay.child import open_engines
from service.replay.judging import judge as judge_with
from tests.replay.package import demo_job, inputs_of, shader_job, weights_of

NO_GPU = "there is no GPU in this test"
ENGINES = open_engines(without_gpu=NO_GPU)


def judge(job: ReplayJob) -> Judgement:
    return judge_with(job, ENGINES).judgement


def test_auto_takes_the_reference_and_says_why_not_the_gpu() -> None:
    found = judge(demo_job())
    assert (found.verdict, found.engine, found.engine_reason) == ("reproduced", "reference", NO_GPU)
    assert found.adapter is None
    assert found.labels is not None
    assert (found.labels.equal, found.labels.of) == (24, 24)
    assert found.max_abs_error is not None
    assert 0 < found.max_abs_error < 1e-4
    assert set(found.digests) >= {"checkpoint", "weights", "module", "shader_archive", "validation"}


def test_cpu_is_another_word_for_the_reference() -> None:
    found = judge(demo_job(engine="cpu"))
    assert (found.engine, found.engine_reason) == ("reference", None)


def test_wasm_agrees_with_the_reference() -> None:
    found = judge(demo_job(engine="wasm"))
    assert (found.verdict, found.engine) == ("reproduced", "wasm")
    assert "wasmtime" in found.libraries


def test_a_gpu_that_is_asked_for_and_not_there_cannot_run() -> None:
    found = judge(demo_job(engine="gpu"))
    assert (found.verdict, found.code) == ("cannot-run", "no_gpu")
    assert NO_GPU in (found.reason or "")


@pytest.mark.parametrize(
    ("changes", "code", "word"),
    [
        ({"module": None}, "no_module", "?role=module"),
        ({"validation": None}, "no_validation", "?role=validation"),
        ({"engine": "wasm", "wasm": None}, "no_wasm", "?role=wasm"),
        ({"validation": write_tensors({"other": np.zeros((2, 2), "<f4")})}, "no_input", "'image' is not among"),
    ],
)
def test_what_is_missing_is_named_with_how_to_attach_it(changes: dict[str, Any], code: str, word: str) -> None:
    found = judge(demo_job(**changes))
    assert (found.verdict, found.code) == ("cannot-run", code)
    assert word in (found.reason or "")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"checkpoint_sha256": "0" * 64}, "digest_mismatch"),
        ({"checkpoint": b"no checkpoint", "checkpoint_sha256": None}, "malformed_checkpoint"),
        ({"module": b"{}"}, "digest_mismatch"),
        ({"shader_archive": b"PK"}, "malformed_shader_archive"),
        ({"shader_archive": shader_job().shader_archive}, "malformed_shader_archive"),
        ({"wasm": b"\0asm"}, "malformed_module"),
        ({"validation": b"short"}, "malformed_tensor_file"),
        ({"validation": write_tensors({"image": np.zeros((2, 63), "<f4")})}, "inputs_do_not_fit"),
        ({"validation": write_tensors({"image": np.zeros((2, 64), "<f8")})}, "inputs_do_not_fit"),
        ({"validation": write_tensors({"image": np.zeros((0, 64), "<f4")})}, "inputs_do_not_fit"),
        ({"engine": "tpu"}, "unknown_engine"),
    ],
)
def test_what_is_wrong_is_refused(changes: dict[str, Any], code: str) -> None:
    job = demo_job(**{key: value for key, value in changes.items() if value is not None})
    if changes.get("checkpoint"):
        from service.domain.canonical import sha256_hex

        job = msgspec.structs.replace(job, checkpoint_sha256=sha256_hex(job.checkpoint))
    found = judge(job)
    assert (found.verdict, found.code) == ("refused", code)
    assert found.reason


def test_weights_that_are_not_the_modules_are_refused() -> None:
    weights = weights_of(build_package().module)
    del weights["dense2.bias"]
    found = judge(demo_job(weights=weights))
    assert (found.verdict, found.code) == ("refused", "weights_do_not_fit")
    assert "'dense2.bias': got nothing, wanted <f4 [10]" in (found.reason or "")


def test_a_nan_in_the_weights_is_shown_in_weights_layers_and_outputs() -> None:
    weights = weights_of(build_package().module)
    weights["dense1.weight"][3, 3] = np.nan
    found = judge(demo_job(weights=weights))
    assert found.verdict == "reproduced"  # both sides give NaN: it is what this checkpoint does
    assert found.non_finite["weights"] == {"dense1.weight": 1}
    assert list(found.non_finite["layers"]) == ["hidden", "activation", "logits"]
    assert found.non_finite["outputs"] == {"logits": 240}


def test_a_recorded_accuracy_that_is_not_true_deviates() -> None:
    truthful = judge(demo_job())
    by_key = {metric.key: metric for metric in truthful.metrics}
    told = Metrics(validation={"accuracy": by_key["accuracy"].recomputed, "loss": by_key["loss"].recomputed})
    assert judge(demo_job(metrics=told)).verdict == "reproduced"
    lied = judge(demo_job(metrics=Metrics(validation={"accuracy": 0.99, "loss": by_key["loss"].recomputed})))
    assert (lied.verdict, lied.code) == ("deviates", "metrics_differ")
    assert "accuracy: recorded 0.99" in (lied.reason or "")


def test_ad_hoc_inputs_give_outputs_and_no_metrics() -> None:
    module = build_package().module
    judged = judge_with(demo_job(inputs=write_tensors(inputs_of(module, 2)), validation=None), ENGINES)
    assert judged.outputs is not None
    assert read_tensors(judged.outputs)["logits"].shape == (2, 10)
    assert (judged.judgement.verdict, judged.judgement.metrics) == ("reproduced", [])


def test_the_result_has_no_bare_non_finite_number() -> None:
    weights = weights_of(build_package().module)
    weights["dense2.bias"][0] = np.inf
    told = Metrics(validation={"loss": float("nan")})
    document = result_document(judge(demo_job(weights=weights, metrics=told)))
    loss = next(metric for metric in document["metrics"] if metric["key"] == "loss")
    assert loss["recorded"] == {"non_finite": "NaN"}
    assert "verdict" not in document
