"""WGSL archives: manifest, members and shader texts must agree; every refusal names member, path or line."""

from typing import Any

import msgspec
import pytest

from service.artifacts.shader_archive import Manifest, read_shader_archive, write_shader_archive
from service.artifacts.zip_container import write_zip
from service.domain.canonical import canonical_json, sha256_hex
from service.errors import MalformedShaderArchive

SHADER = """
override FACTOR: u32 = 1;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < arrayLength(&y)) { y[id.x] = x[id.x] * f32(FACTOR); }
}
"""


def document(**changes: Any) -> dict[str, Any]:
    """A manifest that scales its input; `changes` set values by dotted path (with `__` for the dot)."""
    value: dict[str, Any] = {
        "format": "retrace-wgsl",
        "formatVersion": 1,
        "name": "scale",
        "symbols": {"batch": {"min": 1, "max": 64, "multipleOf": 4}},
        "shaders": {
            "scale": {"path": "shaders/scale.wgsl", "sha256": sha256_hex(SHADER.encode()), "sizeBytes": len(SHADER)}
        },
        "buffers": {
            "x": {"role": "input", "name": "x", "shape": ["batch", 4]},
            "y": {"role": "output", "name": "y", "shape": ["batch", 4]},
        },
        "dispatches": [
            {
                "shader": "scale",
                "constants": {"FACTOR": 3},
                "bindings": [
                    {"group": 0, "binding": 0, "buffer": "x", "access": "read"},
                    {"group": 0, "binding": 1, "buffer": "y", "access": "read_write"},
                ],
                "workgroups": ["ceilDiv(batch * 4, 64)", 1, 1],
                "maxIterations": 0,
            }
        ],
    }
    for path, change in changes.items():
        target: Any = value
        *parents, last = path.split("__")
        for part in parents:
            target = target[int(part) if part.isdigit() else part]
        target[int(last) if last.isdigit() else last] = change
    return value


def archive_of(manifest: dict[str, Any], shader: str = SHADER, **members: bytes) -> bytes:
    """The ZIP of a manifest as it stands and one shader whose digest is set to match."""
    content = shader.encode()
    if manifest["shaders"].get("scale") == document()["shaders"]["scale"]:
        manifest["shaders"]["scale"] |= {"sha256": sha256_hex(content), "sizeBytes": len(content)}
    return write_zip({"manifest.json": canonical_json(manifest), "shaders/scale.wgsl": content, **members})


def refusal_of(data: bytes) -> MalformedShaderArchive:
    with pytest.raises(MalformedShaderArchive) as refusal:
        read_shader_archive(data)
    assert refusal.value.code == "malformed_shader_archive"
    return refusal.value


def test_an_archive_that_agrees_is_read() -> None:
    data = archive_of(document())
    archive = read_shader_archive(data)
    assert archive.sources == {"scale": SHADER}
    assert archive.sha256 == sha256_hex(data)
    assert archive.manifest.tolerance.max_relative == 1e-5


def test_writing_fills_in_the_digests_and_is_stable() -> None:
    manifest = msgspec.convert(document(shaders={}), Manifest)
    data = write_shader_archive(manifest, {"scale": SHADER})
    assert write_shader_archive(manifest, {"scale": SHADER}) == data
    assert read_shader_archive(data).manifest.shaders["scale"].sha256 == sha256_hex(SHADER.encode())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format": "retrace-module"}, "$.format"),
        ({"more": 1}, "unknown field `more`"),
        ({"formatVersion": 2}, "$.formatVersion"),
        ({"symbols__batch__max": 0}, "$.symbols.batch: wanted 1 <= min <= max"),
        ({"symbols__batch": {"min": 5, "max": 7, "multipleOf": 8}}, "1 <= multipleOf <= max"),
        ({"symbols__batch": {"min": 9, "max": 15, "multipleOf": 8}}, "no multiple of 8 lies between"),
        ({"symbols__2b": {"max": 3}}, "'2b' is no name for a symbol"),
        ({"requires": {"features": ["float64"]}}, "$.requires.features: ['float64'] unknown"),
        ({"requires": {"limits": {"maxBindGroups": 8}}}, "$.requires.limits.maxBindGroups"),
        ({"tolerance": {"maxRelative": 0}}, "$.tolerance.maxRelative"),
        ({"buffers__x__shape": ["rows", 4]}, "$.buffers.x: 'rows': symbol 'rows' is not known; known: ['batch']"),
        ({"buffers__x__shape": ["batch - 5", 4]}, "-1 is no unsigned 64-bit number"),
        ({"buffers__y__crop": ["batch", 5]}, "$.buffers.y: axis 1 uses 5 of 4"),
        ({"buffers__y__crop": ["batch"]}, "$.buffers.y: 1 axes within 2 axes"),
        ({"buffers__y__role": "scratch"}, "unknown field"),
        ({"buffers__z": {"role": "scratch", "sizeBytes": 6}}, "$.buffers.z.sizeBytes: got 6, wanted a multiple of 4"),
        ({"buffers__z": {"role": "scratch", "sizeBytes": 8}}, "$.buffers.z: bound by no dispatch"),
        ({"buffers__z": {"role": "constant", "base64": "AAA"}}, "$.buffers.z.base64"),
        ({"buffers__z": {"role": "constant", "base64": "AAAA"}}, "3 bytes, wanted a multiple of 4"),
        ({"buffers__z": {"role": "weight", "tensor": "w", "shape": [3], "padTo": [2]}}, "axis 0 uses 3 of 2"),
        ({"dispatches": []}, "$.dispatches: 0, wanted 1 to 1024"),
        ({"dispatches__0__shader": "other"}, "$.dispatches[0].shader: 'other' is not in $.shaders"),
        ({"dispatches__0__entryPoint": "start"}, "'start' is no compute entry point; found ['main']"),
        ({"dispatches__0__constants": {"TIMES": 1}}, "['TIMES'] are no overrides of shaders/scale.wgsl"),
        ({"dispatches__0__constants": {"FACTOR": "rows"}}, "$.dispatches[0].constants.FACTOR"),
        ({"dispatches__0__maxIterations": 60_001}, "60001, wanted at most 60000"),
        ({"dispatches__0__maxIterations": "batch * 1000"}, "wanted at most 60000"),
        ({"dispatches__0__workgroups": [0, 1, 1]}, "$.dispatches[0].workgroups[0]: 0, wanted 1 to 65535"),
        ({"dispatches__0__workgroups": [65_536, 1, 1]}, "65536, wanted 1 to 65535"),
        ({"dispatches__0__workgroups": ["batch / 3", 1, 1]}, "4 / 3 is no whole number"),
        (
            {"dispatches__0__bindings__0__access": "read_write"},
            "@binding(0): the shader says read, the manifest read_write",
        ),
        ({"dispatches__0__bindings__1__access": "read"}, "an output that no dispatch writes"),
        (
            {"dispatches__0__bindings__0__binding": 2},
            "@group(0) @binding(0) is declared in line 3 of the shader and not given",
        ),
        ({"dispatches__0__bindings__0__binding": 1}, "one group and binding is given twice"),
        ({"dispatches__0__bindings__0__buffer": "w"}, "$.buffers.x: bound by no dispatch"),
        ({"dispatches__0__bindings__0__buffer": "y"}, "$.buffers.x: bound by no dispatch"),
    ],
)
def test_a_manifest_against_the_rules_is_refused_with_its_path(changes: dict[str, Any], reason: str) -> None:
    refusal = refusal_of(archive_of(document(**changes)))
    assert reason in str(refusal)
    assert refusal.details["member"] == "manifest.json"


def test_a_key_given_twice_in_the_manifest_is_refused() -> None:
    text = canonical_json(document()).replace(b'"name":"scale"', b'"name":"scale","name":"scale"')
    assert "duplicate key at $.name" in str(refusal_of(write_zip({"manifest.json": text})))


@pytest.mark.parametrize(
    ("shader", "reason"),
    [
        (SHADER.replace("read_write", "read"), "the shader says read, the manifest read_write"),
        (SHADER + "@group(0) @binding(2) var<storage> z: array<f32>;", "@binding(2) is declared in line 9"),
        (
            SHADER + "@group(0) @binding(N) var<storage> z: array<f32>;",
            "line 9: wanted @group and @binding with plain",
        ),
        (SHADER + "@group(0) @binding(2) var t: texture_2d<f32>;", "line 9: variable 't' is no storage buffer"),
        (SHADER + "@group(0) @binding(2) struct S { a: f32 }", "belong to no variable"),
        (SHADER + "/* open", "line 9: a block comment has no end"),
        ("enable f16;" + SHADER, "enables 'f16', which $.requires.features of manifest.json does not list"),
        (SHADER + "var<workgroup> t: array<f32, 4097>;", "16388 bytes of workgroup memory, wanted at most 16384"),
        (SHADER + "var<workgroup> t: array<vec3<f32>, 1025>;", "16400 bytes of workgroup memory"),
        (SHADER + "var<workgroup> t: array<f32, N>;", "the size of workgroup variable 't' is not known"),
        (
            SHADER + "struct S { a: f32 }\nvar<workgroup> t: S;",
            "'S' is no type that is read here (wanted arrays of scalars, vectors or matrices)",
        ),
        (SHADER.replace("64)", "16, 17)"), "[16, 17, 1] is beyond maxComputeInvocationsPerWorkgroup"),
        (SHADER.replace("64)", "1, 1, 65)"), "beyond maxComputeWorkgroupSizeZ"),
        (SHADER.replace("64)", "SIZE)"), "the workgroup size cannot be read"),
        (SHADER.replace("@compute @workgroup_size(64)", ""), "no compute entry point; found []"),
    ],
)
def test_a_shader_that_the_manifest_does_not_describe_is_refused(shader: str, reason: str) -> None:
    assert reason in str(refusal_of(archive_of(document(), shader)))


def test_declarations_in_comments_do_not_count() -> None:
    noise = "// @group(0) @binding(7) var<storage> a: f32;\n/* @group(1) /* @binding(8) */ var<workgroup> b: f32; */\n"
    assert read_shader_archive(archive_of(document(), noise + SHADER)).manifest.name == "scale"


def test_overrides_of_the_dispatch_size_the_workgroup_memory() -> None:
    shader = SHADER + "var<workgroup> t: array<f32, FACTOR * 1024>;"
    assert read_shader_archive(archive_of(document(), shader)).manifest.name == "scale"
    assert "20480 bytes" in str(refusal_of(archive_of(document(dispatches__0__constants={"FACTOR": 5}), shader)))


def test_a_required_feature_may_be_enabled() -> None:
    manifest = document(requires={"features": ["shader-f16"]})
    assert read_shader_archive(archive_of(manifest, "enable f16;" + SHADER)).manifest.requires.features == (
        "shader-f16",
    )


def test_weights_and_inputs_are_never_writable() -> None:
    shader = SHADER.replace("var<storage, read> x", "var<storage, read_write> x")
    manifest = document(dispatches__0__bindings__0__access="read_write")
    assert "'x' is of role input, which is never writable" in str(refusal_of(archive_of(manifest, shader)))


def test_nine_storage_buffers_need_a_higher_limit() -> None:
    shader, manifest = SHADER, document()
    for index in range(2, 9):
        shader += f"@group(0) @binding({index}) var<storage> z{index}: array<f32>;\n"
        manifest["buffers"][f"z{index}"] = {"role": "scratch", "sizeBytes": 4}
        manifest["dispatches"][0]["bindings"].append(
            {"group": 0, "binding": index, "buffer": f"z{index}", "access": "read"}
        )
    assert "9 storage buffers, wanted at most 8" in str(refusal_of(archive_of(manifest, shader)))
    manifest["requires"] = {"limits": {"maxStorageBuffersPerShaderStage": 9}}
    assert read_shader_archive(archive_of(manifest, shader)).manifest.name == "scale"


def test_a_changed_shader_is_found_by_its_digest() -> None:
    manifest = document()
    content = SHADER.replace("* f32", "+ f32").encode()
    data = write_zip({"manifest.json": canonical_json(manifest), "shaders/scale.wgsl": content})
    refusal = refusal_of(data)
    assert refusal.details["member"] == "shaders/scale.wgsl"
    assert "the manifest says" in str(refusal)


@pytest.mark.parametrize(
    ("members", "member", "reason"),
    [
        ({}, "manifest.json", "missing"),
        ({"manifest.json": b"[]"}, "manifest.json", "Expected `object`"),
        ({"manifest.json": b"{" * 100_000}, "manifest.json", "malformed"),
        ({"manifest.json": canonical_json(document())}, "shaders/scale.wgsl", "named by the manifest and missing"),
    ],
)
def test_members_that_are_missing_are_named(members: dict[str, bytes], member: str, reason: str) -> None:
    refusal = refusal_of(write_zip(members))
    assert refusal.details["member"] == member
    assert reason in str(refusal)


def test_members_that_nobody_names_are_refused() -> None:
    refusal = refusal_of(archive_of(document(), SHADER, **{"shaders/extra.wgsl": b""}))
    assert refusal.details == {"member": "shaders/extra.wgsl", "reason": "the manifest names no such member"}


def test_a_zip_in_the_zip_is_refused() -> None:
    """F29."""
    inner = write_zip({"a": b""})
    manifest = document(shaders__scale__sha256=sha256_hex(inner), shaders__scale__sizeBytes=len(inner))
    data = write_zip({"manifest.json": canonical_json(manifest), "shaders/scale.wgsl": inner})
    assert "a ZIP inside the ZIP" in str(refusal_of(data))


def test_a_bad_container_is_refused_with_its_member() -> None:
    refusal = refusal_of(archive_of(document())[:-1])
    assert refusal.details["member"] is None
    assert "no end record" in str(refusal)
