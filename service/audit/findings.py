"""What a verification says: findings with stable codes, and the report that holds them. No checking here."""

import msgspec

FINDINGS_MAX = 1000


class Finding(msgspec.Struct, frozen=True):
    """One thing that is not as it must be: a stable code, a sentence, and where (a position or a digest)."""

    code: str
    sentence: str
    position: int | None = None
    sha256: str | None = None


class Report(msgspec.Struct):
    """What was looked at and what was found. `findings` holds the first 1,000; `findings_count` counts all."""

    events: int = 0
    streams: int = 0
    erased: int = 0
    artifacts: int = 0
    size: int = 0
    root: str = ""
    head_size: int | None = None
    since_size: int | None = None
    findings_count: int = 0
    findings: list[Finding] = msgspec.field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found."""
        return self.findings_count == 0

    def add(self, code: str, sentence: str, position: int | None = None, sha256: str | None = None) -> None:
        """Count a finding, and keep it while there is room."""
        self.findings_count += 1
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(Finding(code, sentence, position, sha256))
