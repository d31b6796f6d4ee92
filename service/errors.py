"""The whole error tree. Each leaf has a stable `code`; nothing here knows HTTP (the doors map a branch to a status).

A message says what was got, what was wanted and what to do. `details` carries the same facts for programs
(a path into the document, a limit and its unit, the positions concerned). Codes are listed in docs/rest-api.md.
"""

from typing import Any, ClassVar


class RetraceError(Exception):
    """Root of every refusal and failure that Retrace raises on purpose."""

    code: ClassVar[str] = "internal"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


# ---- what was sent cannot be read -------------------------------------------------------------------------


class BadInput(RetraceError):
    """The bytes or words sent do not follow the written rules; sending them again cannot help."""

    code = "bad_input"


class InvalidJson(BadInput):
    code = "invalid_json"


class DuplicateKey(BadInput):
    code = "duplicate_key"


class NestingTooDeep(BadInput):
    code = "nesting_too_deep"


class NumberOutOfRange(BadInput):
    code = "number_out_of_range"


class InvalidField(BadInput):
    """A field is missing, of the wrong type or outside its rule; `details["path"]` names it."""

    code = "invalid_field"


class InvalidDigest(BadInput):
    code = "invalid_digest"


class UnknownParameter(BadInput):
    """A query parameter that this address does not have, or a value outside its list."""

    code = "unknown_parameter"


class UnsupportedContentType(BadInput):
    code = "unsupported_content_type"


class InvalidEncoding(BadInput):
    """A compressed body that cannot be decompressed."""

    code = "invalid_encoding"


class UploadAborted(BadInput):
    """The sender went away before its upload was complete; nothing was kept."""

    code = "upload_aborted"


class HostNotAllowed(BadInput):
    """The Host header names none of this service's hosts: a page may have rebound a name to this address."""

    code = "host_not_allowed"


class OriginNotAllowed(BadInput):
    """A page of a site that is not on the list asked for a change."""

    code = "origin_not_allowed"


class TooLarge(BadInput):
    """A limit on size was passed; `details` has `limit`, `got` and `unit`."""

    code = "too_large"


class RangeNotSatisfiable(BadInput):
    """A part of an artifact that does not exist; `details["size_bytes"]` is its size."""

    code = "range_not_satisfiable"


# ---- what was sent can be read, and must be refused ----------------------------------------------------------


class Unprocessable(RetraceError):
    code = "unprocessable"


class DigestMismatch(Unprocessable):
    code = "digest_mismatch"


class DirectionUnknown(Unprocessable):
    """No module manifest and no state says whether more or less of this metric is better."""

    code = "direction_unknown"


class MalformedState(Unprocessable):
    """A State document whose outline cannot be walked: a list that is no list, an entry without id. See `path`."""

    code = "malformed_state"


class MalformedTensorFile(Unprocessable):
    """Bytes that break the safetensors layout; `details` has the byte `offset` and the `reason`."""

    code = "malformed_tensor_file"


class MalformedCheckpoint(MalformedTensorFile):
    """A tensor file that is no checkpoint of a known format, or whose metadata breaks it."""

    code = "malformed_checkpoint"


class MalformedModule(Unprocessable):
    code = "malformed_module"


class UnsupportedOperation(Unprocessable):
    """A graph holds an operation that Retrace does not import; `details` has its `operation` and `node`."""

    code = "unsupported_operation"


class MalformedShaderArchive(Unprocessable):
    code = "malformed_shader_archive"


class InferenceRefused(Unprocessable):
    """A checkpoint could not be run on the inputs sent; `details` has `verdict` and `reason_code` (docs/replay.md)."""

    code = "inference_refused"


class MalformedQuestion(Unprocessable):
    """A question file whose header or SQL does not hold; the message names file and line."""

    code = "malformed_question"


# ---- what was asked for is not there -------------------------------------------------------------------------


class NotFound(RetraceError):
    code = "not_found"


class JobNotFound(NotFound):
    code = "job_not_found"


class ParticipantNotFound(NotFound):
    code = "participant_not_found"


class CheckpointNotFound(NotFound):
    code = "checkpoint_not_found"


class ArtifactNotFound(NotFound):
    code = "artifact_not_found"


class EventNotFound(NotFound):
    code = "event_not_found"


class ReplayNotFound(NotFound):
    code = "replay_not_found"


class QuestionNotFound(NotFound):
    code = "question_not_found"


# ---- what was asked for clashes with what is recorded ----------------------------------------------------------


class Conflict(RetraceError):
    code = "conflict"


class EventIdConflict(Conflict):
    """The same event id came again with other bytes; `details["position"]` is the first one's."""

    code = "event_id_conflict"


class VersionConflict(Conflict):
    """A stream is not at the expected version; `details` has `stream`, `expected` and `actual`."""

    code = "version_conflict"


class UploadInProgress(Conflict):
    """Another request is sending the same artifact."""

    code = "upload_in_progress"


class UploadOffsetMismatch(Conflict):
    """An upload does not go on where it ended; `details["offset"]` is the byte wanted next."""

    code = "upload_offset_mismatch"


class AmbiguousJob(Conflict):
    """Two sites share the job id; `details["sites"]` lists them, `?site=` decides."""

    code = "ambiguous_job"


# ---- the service cannot do it now; a later try may succeed -------------------------------------------------------


class Unavailable(RetraceError):
    """Retry after `details["retry_after_s"]` seconds with the same ids; nothing was stored."""

    code = "unavailable"


class StoreOverloaded(Unavailable):
    code = "store_overloaded"


class StoreUnavailable(Unavailable):
    code = "store_unavailable"


class RecorderFull(Unavailable):
    """A recorder's own memory is full and nothing in it may be thinned; nothing is lost yet."""

    code = "recorder_full"


# ---- the record itself or its set-up is broken -------------------------------------------------------------------


class Corrupt(RetraceError):
    """Stored bytes are not what was stored; `details` names the position or digest."""

    code = "corrupt"


class LogForked(Corrupt):
    """The stored log does not extend the last signed head: refusing to sign."""

    code = "log_forked"


class MalformedNote(BadInput):
    """A signed note, tree head or proof that does not follow C2SP to the byte."""

    code = "malformed_note"


class SetupError(RetraceError):
    """The service cannot start as it is set up; the message names the command or setting that helps."""

    code = "setup"


class DataFolderInUse(SetupError):
    code = "data_folder_in_use"


# ---- on the recorder's side --------------------------------------------------------------------------------------


class RecordingRefused(RetraceError):
    """The service refuses what a recorder sent, and will again; `details["problem"]` is its answer."""

    code = "recording_refused"
