"""Which file system a path lies on: one of this machine, or one that other machines may use as well."""

from __future__ import annotations

import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")

NETWORK = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "davfs", "sshfs", "9p"),
        *("lustre", "gpfs", "beegfs", "ceph", "glusterfs", "panfs", "pvfs2", "orangefs", "wekafs"),
    )
)
"""Types of file systems over a network, as Linux names them; those of FUSE without their `fuse.`."""


def on_network(path: Path, mounts: str | None = None) -> bool:
    """Whether a path lies on a network file system; no where the system does not say.

    Args:
        path: need not exist yet.
        mounts: in place of Linux's own list, /proc/self/mountinfo.

    Example:
        >>> mounts = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\\n36 21 0:31 / /home rw shared:1 - nfs4 server:/home rw\\n"
        >>> on_network(Path("/home/me/outputs"), mounts), on_network(Path("/homes/me"), mounts)
        (True, False)
    """
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
    real = path.resolve()
    deepest, kind = -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = Path(_unescaped(fields[4]))
        # of two mounts at one place the later hides the earlier
        if real.is_relative_to(point) and len(point.parts) >= deepest:
            deepest, kind = len(point.parts), after.split(" ")[0]
    return kind.removeprefix("fuse.") in NETWORK


def _unescaped(name: str) -> str:
    """Linux writes blanks in names as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), name)
