"""Two machines: two network namespaces with a cable between them. Needs root and `ip`."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from refprior import _mesh
from refprior.training import Recipe, train
from tests.distributed.processes import environment
from tests.training.interruption import assert_same_run
from tests.training.recipes import perceptron

TRAINS = "import sys, pathlib, tests.distributed.test_nodes as t; t.run(pathlib.Path(sys.argv[1]))"
PORT = "29477"


def recipe() -> Recipe:
    return perceptron(particles=4, steps=300, evaluate_every=100)


def run(folder: Path) -> None:
    import torch

    torch.set_num_threads(1)
    train(recipe(), folder)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def nodes() -> Iterator[tuple[str, str]]:
    """Names of the namespaces; each holds one end of the cable, which has the name of its namespace."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and ip")
    names = tuple(f"rp{os.getpid() % 10**6}{end}" for end in "ab")
    with ExitStack() as stack:
        try:
            for name in names:
                ip("netns", "add", name)
                stack.callback(ip, "netns", "del", name)
            ip("link", "add", names[0], "netns", names[0], "type", "veth", "peer", "name", names[1], "netns", names[1])
            for number, name in enumerate(names, 1):
                ip("-n", name, "address", "add", f"10.213.7.{number}/24", "dev", name)
                for device in ("lo", name):
                    ip("-n", name, "link", "set", device, "up")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
        yield names[0], names[1]


def start(node: str, rank: int, folder: Path) -> "subprocess.Popen[str]":
    place = {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}
    meeting = {"MASTER_ADDR": "10.213.7.1", "MASTER_PORT": PORT, "GLOO_SOCKET_IFNAME": node}
    return subprocess.Popen(
        ["ip", "netns", "exec", node, sys.executable, "-c", TRAINS, str(folder)],
        env=environment(**place, **meeting, REFPRIOR_TIMEOUT="120"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.thorough
def test_two_machines_give_the_bits_of_one_process_even_if_the_cable_is_cut_for_seconds(
    nodes: tuple[str, str], tmp_path: Path
) -> None:
    processes = [start(node, rank, tmp_path / "two") for rank, node in enumerate(nodes)]
    try:
        metrics = tmp_path / "two" / "metrics.jsonl"
        while not (metrics.exists() and metrics.stat().st_size) and processes[0].poll() is None:
            time.sleep(0.02)
        ip("-n", nodes[0], "link", "set", nodes[0], "down")
        time.sleep(3)
        assert processes[0].poll() is None, "the run was over before the cable was cut"
        ip("-n", nodes[0], "link", "set", nodes[0], "up")
        said = [process.communicate(timeout=300)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], said
    train(recipe(), tmp_path / "one")
    assert_same_run(tmp_path / "one", tmp_path / "two")


def test_a_name_that_other_machines_cannot_resolve_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    monkeypatch.setattr(socket, "gethostname", lambda: "node7")
    monkeypatch.setattr(socket, "gethostbyname", lambda name: {"node7": "127.0.1.1"}[name])
    hint = _mesh._why_unreachable()
    assert "node7 resolves to 127.0.1.1" in hint
    assert "GLOO_SOCKET_IFNAME" in hint
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth0")
    assert _mesh._why_unreachable() == ""
    monkeypatch.delenv("GLOO_SOCKET_IFNAME")
    monkeypatch.setattr(socket, "gethostbyname", lambda name: "10.0.0.7")
    assert _mesh._why_unreachable() == ""
