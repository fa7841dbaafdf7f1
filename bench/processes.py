"""CPU time, memory and threads of a process and its descendants, from /proc."""

import os
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

# Fields of /proc/PID/stat after the command's name, which may contain anything but ends with ")".
_PARENT = 1
_USER, _SYSTEM, _USER_OF_REAPED, _SYSTEM_OF_REAPED = 11, 12, 13, 14


def _stat(pid: int) -> list[str] | None:
    """Fields of `stat`; None if the process has ended."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def _status(pid: int, field: str) -> int:
    for line in (PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    return 0  # a zombie has no memory


def tree(root: int) -> list[int]:
    """A process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (stat := _stat(int(entry.name))):
            children.setdefault(int(stat[_PARENT]), []).append(int(entry.name))
    pids = [root]
    for pid in pids:
        pids += children.get(pid, [])
    return pids


def cpu_seconds(root: int) -> float:
    """User and system time of a tree so far, including reaped children."""
    ticks = 0
    for pid in tree(root):
        if stat := _stat(pid):
            fields = (_USER, _SYSTEM, _USER_OF_REAPED, _SYSTEM_OF_REAPED)
            ticks += sum(int(stat[field]) for field in fields)
    return ticks / TICKS_PER_SECOND


def resident_kilobytes(root: int) -> int:
    """Resident memory of a tree; shared pages count once per process."""
    return sum(_status(pid, "VmRSS") for pid in tree(root))


def threads(root: int) -> int:
    return sum(_status(pid, "Threads") for pid in tree(root))


def reset_peak(root: int) -> None:
    """Make `peak_kilobytes` start from the current value."""
    for pid in tree(root):
        (PROC / str(pid) / "clear_refs").write_text("5")


def peak_kilobytes(root: int) -> int:
    """Sum of the peaks of resident memory of all processes in a tree."""
    return sum(_status(pid, "VmHWM") for pid in tree(root))
