"""WGSL archive: a deterministic ZIP of `manifest.json` and `shaders/*.wgsl`. Read in memory, never extracted.

The digest of the ZIP's bytes is the archive's identity. This module joins container, manifest and shader texts and
checks them against each other; it touches no GPU. Byte map: docs/formats.md, "WGSL archive".
"""

from collections.abc import Mapping

import msgspec

from service.artifacts.byte_source import Bytes
from service.artifacts.shader_checks import MANIFEST, check_archive, limits_of, refusal
from service.artifacts.shader_manifest import (
    Access,
    Binding,
    Buffer,
    ConstantBuffer,
    Dispatch,
    Expression,
    InputBuffer,
    Manifest,
    OutputBuffer,
    Requires,
    ScratchBuffer,
    Shader,
    Symbol,
    Tolerance,
    WeightBuffer,
)
from service.artifacts.strict_json import NotStrict, decode_strict
from service.artifacts.zip_container import ZipError, read_zip, write_zip
from service.domain.canonical import canonical_json, sha256_hex
from service.errors import MalformedShaderArchive

__all__ = [
    "Access", "Binding", "Buffer", "ConstantBuffer", "Dispatch", "Expression", "InputBuffer", "Manifest",
    "OutputBuffer", "Requires", "ScratchBuffer", "Shader", "ShaderArchive", "Symbol", "Tolerance", "WeightBuffer",
    "limits_of", "read_shader_archive", "write_shader_archive",
]  # fmt: skip


SHADER_BYTES_MAX = 256 * 1024
MANIFEST_BYTES_MAX = 1024 * 1024
SHADER_FOLDER, SHADER_SUFFIX = "shaders/", ".wgsl"
_ZIP_MAGIC = b"PK\x03\x04"


class ShaderArchive(msgspec.Struct, frozen=True, kw_only=True):
    """A checked archive: its manifest, the WGSL texts by shader name, and the digest of its bytes."""

    manifest: Manifest
    sources: dict[str, str]
    sha256: str


def read_shader_archive(data: Bytes) -> ShaderArchive:
    """The checked archive. Raises MalformedShaderArchive, which names the member and the reason; all or nothing."""
    data = bytes(data)
    try:
        members = read_zip(data)
    except ZipError as error:
        raise _container_refusal(error) from None
    manifest = _read_manifest(members)
    sources = {name: _read_source(members, shader) for name, shader in manifest.shaders.items()}
    unnamed = set(members) - {shader.path for shader in manifest.shaders.values()} - {MANIFEST}
    if unnamed:
        raise refusal("the manifest names no such member", sorted(unnamed)[0])
    check_archive(manifest, sources)
    return ShaderArchive(manifest=manifest, sources=sources, sha256=sha256_hex(data))


def write_shader_archive(manifest: Manifest, sources: Mapping[str, str]) -> bytes:
    """The archive's bytes, with `shaders` filled in from the texts by name; equal input gives equal bytes.

    Raises MalformedShaderArchive for a manifest that does not fit the texts.
    """
    members = {f"{SHADER_FOLDER}{name}{SHADER_SUFFIX}": text.encode() for name, text in sources.items()}
    shaders = {
        name: Shader(path=path, sha256=sha256_hex(members[path]), size_bytes=len(members[path]))
        for name, path in zip(sources, members, strict=True)
    }
    members[MANIFEST] = canonical_json(msgspec.structs.replace(manifest, shaders=shaders))
    try:
        data = write_zip(members)
    except ZipError as error:
        raise _container_refusal(error) from None
    read_shader_archive(data)
    return data


def _container_refusal(error: ZipError) -> MalformedShaderArchive:
    place = "the archive" if error.member is None else repr(error.member)
    return MalformedShaderArchive(f"{place}: {error.reason}", member=error.member, reason=error.reason)


def _read_manifest(members: Mapping[str, bytes]) -> Manifest:
    text = members.get(MANIFEST)
    if text is None:
        raise refusal("missing")
    if len(text) > MANIFEST_BYTES_MAX:
        raise refusal(f"{len(text)} bytes, wanted at most {MANIFEST_BYTES_MAX}")
    try:
        return decode_strict(text, Manifest)
    except NotStrict as error:
        raise refusal(error.reason) from None


def _read_source(members: Mapping[str, bytes], shader: Shader) -> str:
    """The text of one shader, after its name, size and digest were found to be what the manifest says."""
    path, content = shader.path, members.get(shader.path)
    if not path.startswith(SHADER_FOLDER) or not path.endswith(SHADER_SUFFIX):
        raise refusal(f"the name of a shader is wanted as {SHADER_FOLDER}NAME{SHADER_SUFFIX}", path)
    if content is None:
        raise refusal("named by the manifest and missing", path)
    if content.startswith(_ZIP_MAGIC):
        raise refusal("a ZIP inside the ZIP", path)
    if len(content) > SHADER_BYTES_MAX or len(content) != shader.size_bytes:
        raise refusal(f"{len(content)} bytes, wanted {shader.size_bytes} and at most {SHADER_BYTES_MAX}", path)
    if sha256_hex(content) != shader.sha256:
        raise refusal(f"SHA-256 {sha256_hex(content)}, the manifest says {shader.sha256}", path)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise refusal(f"no UTF-8 text: {error.reason} at byte {error.start}", path) from None
