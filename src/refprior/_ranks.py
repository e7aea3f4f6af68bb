"""What the launcher of this process says of it: its rank among those that train one run together. No torch."""

import os


class LostRankError(Exception):
    """Another process of this run ended, or does not answer in time."""


def world() -> int:
    """How many processes the launcher started; 1 if none did."""
    return int(os.environ.get("WORLD_SIZE", 1)) if "RANK" in os.environ else 1


def rank() -> int:
    """Which of them this is."""
    return int(os.environ.get("RANK", 0)) if world() > 1 else 0


def local_rank() -> int:
    """Which of those on this machine this is."""
    return int(os.environ.get("LOCAL_RANK", rank())) if world() > 1 else 0


def local_world() -> int:
    """How many of them are on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", world())) if world() > 1 else 1
