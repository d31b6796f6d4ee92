"""One event's evidence as a C2SP tlog-proof file: leaf index, inclusion proof, signed head. Text only, no hashing.

Reference: c2sp.org/tlog-proof. Anybody with the log's public key can check the file offline, for good.
"""

from base64 import b64encode
from collections.abc import Sequence

HEADER = "c2sp.org/tlog-proof@v1"


def write_proof(index: int, hashes: Sequence[bytes], note: str) -> str:
    """The file for leaf `index` (position - 1): `hashes` lead to the root of the signed head `note`."""
    lines = [HEADER, f"index {index}", *(b64encode(each).decode() for each in hashes)]
    return "\n".join(lines) + "\n\n" + note
