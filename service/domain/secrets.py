"""The rule by which secrets leave a payload: used by the recorder before sending, and again at the gate.

A value is a secret by the *key* it stands under, whatever its type: `SECRET_KEYS` (ASCII case, `_` and `-` do not
count), and `code` of an invitation. Values are never guessed at, so a secret inside free text is not found. null says
that there is none and stays; everything else becomes `[removed]`. Doing it twice changes nothing.
"""

from typing import Any

REMOVED = "[removed]"

SECRET_KEYS = frozenset({
    "token", "accesstoken", "refreshtoken", "idtoken", "authtoken", "sessiontoken", "bearertoken", "csrftoken",
    "invitationtoken", "secret", "clientsecret", "secretkey", "password", "passwd", "passphrase", "apikey", "xapikey",
    "privatekey", "authorization", "cookie", "setcookie", "credential", "credentials", "invitationcode", "invitecode",
    "joincode",
})  # fmt: skip
"""In lower case, without `_` and `-`: `apiKey`, `API_KEY` and `api-key` are all `apikey`."""

_INVITATIONS = frozenset({"invitation", "invitations", "invite", "invites"})
_PLAIN = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz", "_-")


def is_secret_key(key: str, parent_key: str | None = None) -> bool:
    """Whether what stands under `key` is a secret; `parent_key` is the nearest key above it, lists passed over."""
    plain = key.translate(_PLAIN)
    if plain in SECRET_KEYS:
        return True
    return plain == "code" and parent_key is not None and parent_key.translate(_PLAIN) in _INVITATIONS


def may_hold_secrets(text: bytes) -> bool:
    """False only when no key of the JSON text can be a secret's: a quick look, so that most texts are not walked."""
    if b"\\" in text and b"\\u00" in text.lower():
        return True  # an escaped letter may spell any key
    plain = text.lower().translate(None, b"_-")
    # Each secret key contains one of these words. Written out: a loop over them takes five times as long.
    return (
        b"token" in plain or b"secret" in plain or b"passw" in plain or b"passphrase" in plain or b"apikey" in plain
        or b"privatekey" in plain or b"authorization" in plain or b"cookie" in plain or b"credential" in plain
        or b"invitationcode" in plain or b"invitecode" in plain or b"joincode" in plain or b'"code"' in plain
    )  # fmt: skip


def remove_secrets(value: Any, parent_key: str | None = None) -> Any:
    """A copy of a JSON value with `[removed]` in the place of each secret."""
    if isinstance(value, dict):
        return {
            key: REMOVED if item is not None and is_secret_key(str(key), parent_key) else remove_secrets(item, str(key))
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [remove_secrets(item, parent_key) for item in value]
    return value
