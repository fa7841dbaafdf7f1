"""Measures memory, threads and descriptors of the processes of a gateway."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Size:
    rss: float
    """MiB."""
    threads: int
    descriptors: int

    def __str__(self) -> str:
        return f"{self.rss:.1f} MiB, {self.threads} threads, {self.descriptors} descriptors"


def family(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(found for child in children for found in family(int(child)))]


def size(pid: int) -> Size:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return Size(
        rss=int(fields["VmRSS"].split()[0]) / 1024,
        threads=int(fields["Threads"]),
        descriptors=len(list(Path(f"/proc/{pid}/fd").iterdir())),
    )


def slope(points: list[tuple[float, float]]) -> float:
    """Return the slope of the best-fitting line."""
    count = len(points)
    if count < 2:
        return 0.0
    mean_x = sum(x for x, _ in points) / count
    mean_y = sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
