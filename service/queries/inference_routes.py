"""The ad-hoc Playground: inputs in, outputs and how far they agree with the float64 reference out. Records nothing."""

from typing import Any, Protocol, runtime_checkable

from litestar import Response, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, RawBody

from service.domain.identifiers import check_sha256
from service.errors import InferenceRefused
from service.queries.parameters import one_of
from service.queries.responses import Asked, answer
from service.replay import Judgement, result_document
from service.replay.ad_hoc import NPY, outputs_document, outputs_npy
from service.replay.judging import Judged
from service.replay.plan import ENGINES_ASKED


@runtime_checkable  # Litestar checks what it injects
class Playground(Protocol):
    """What runs a checkpoint on given inputs (`service.replaying`)."""

    def infer(self, checkpoint_sha256: str, body: bytes, content_type: str, engine: str) -> Judged:
        """The judgement and the outputs."""


@post("/v1/checkpoints/{sha256:str}/infer", sync_to_thread=True, status_code=200)
def infer(
    request: Asked, sha256: FromPath[str], replays: NamedDependency[Playground], body: RawBody,
    engine: FromQuery[str] = "auto",
) -> Response[bytes]:  # fmt: skip
    """Outputs of a checkpoint for the inputs in the body: JSON, .npy or a tensor file; .npy out by `Accept`."""
    one_of("engine", engine, ENGINES_ASKED)
    content_type = request.headers.get("content-type", "")
    judged = replays.infer(check_sha256(sha256), body, content_type, engine)
    if judged.outputs is None:
        raise _refusal(judged.judgement)
    if NPY in request.headers.get("accept", ""):
        headers = {"x-content-type-options": "nosniff", "vary": "accept", "retrace-verdict": judged.judgement.verdict}
        return Response(outputs_npy(judged.outputs), media_type=NPY, headers=headers)
    said: dict[str, Any] = {"verdict": judged.judgement.verdict, **result_document(judged.judgement)}
    return answer(request, {"outputs": outputs_document(judged.outputs), **said})


def _refusal(judgement: Judgement) -> InferenceRefused:
    return InferenceRefused(
        judgement.reason or judgement.code, verdict=judgement.verdict, reason_code=judgement.code,
        engine_asked=judgement.engine_asked,
    )  # fmt: skip


inference_handlers = [infer]
