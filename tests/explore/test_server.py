"""Who may ask, and what is served: the right host, the right token, and no file but those of the page."""

import json
import os
import signal
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from refprior.explore._static import PAGE
from refprior.explore.server import Served
from tests.cli.running import refprior, start
from tests.explore.served import answer, request, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served") / "runs"
    folder.mkdir()
    (folder.parent / "secret.txt").write_text("secret")
    (folder / "inside.txt").write_text("secret")
    with serving(folder) as found:
        yield found


def test_the_page_and_its_files_are_served_with_a_strict_policy(served: Served) -> None:
    for name, kind in {"": "text/html", **PAGE}.items():
        code, headers, content = request(served, name)
        assert (code, headers["content-type"].partition(";")[0]) == (200, kind)
        assert content
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert b"http://" not in content.replace(b"http://www.w3.org/2000/svg", b"")
        assert b"https://" not in content
    assert served.host.startswith("127.0.0.1:")


@pytest.mark.parametrize("token", ["", "x", "a" * 32, "..", "%2e%2e"])
def test_a_wrong_token_is_rejected(served: Served, token: str) -> None:
    for path in ("", "api/about", "main.js"):
        code, headers, content = request(served, path, token=token)
        assert (code, content) == (404, b"not found\n")
        assert "default-src 'none'" in headers["content-security-policy"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "0.0.0.0:{port}", "localhost.evil.example", ""]
)
def test_another_host_is_rejected(served: Served, host: str) -> None:
    port = served.host.partition(":")[2]
    code, _, content = request(served, "api/about", host=host.format(port=port))
    assert (code, served.host.encode() in content) == (421, True)


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "localhost:9000", "127.0.0.1"])
def test_this_machine_is_accepted_under_any_forwarded_port(served: Served, host: str) -> None:
    assert request(served, "api/about", host=host.format(port=served.host.partition(":")[2]))[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "inside.txt",
        "%2e%2e/secret.txt",
        "..%2fsecret.txt",
        "/etc/passwd",
        "page/index.html",
        "server.py",
        "api/../index.html/x",
        "main.js/",
        "api/unknown",
        "api",
    ],
)
def test_other_paths_are_rejected(served: Served, path: str) -> None:
    code, _, content = request(served, path)
    assert code == 404
    assert b"secret" not in content
    assert b"root:" not in content


def test_another_site_and_other_kinds_of_requests_are_rejected(served: Served) -> None:
    assert request(served, "api/about", sec_fetch_site="cross-site")[0] == 403
    assert request(served, "api/about", sec_fetch_site="same-origin")[0] == 200
    assert request(served, "api/about", origin="http://evil.example")[0] == 403
    assert request(served, "api/about", origin=f"http://{served.host}")[0] == 200
    assert request(served, "api/typed", method="POST", body=b"[" * 30_000)[0] == 400
    assert request(served, "api/typed", method="POST", body={}, content_type="text/plain")[0] == 415
    assert request(served, "api/typed", method="POST", body=b"x" * 70_000)[0] == 413
    assert request(served, "api/typed", method="POST", body=b"{")[0] == 400
    assert request(served, "api/about", method="DELETE")[0] == 405
    assert request(served, "api/typed")[0] == 405


def test_code_does_not_run_unless_it_is_allowed(served: Served) -> None:
    assert answer(served, "api/about")["code"] is False
    asked = {"code": "raise SystemExit", "n": 1, "m": 0, "beta": 1}
    assert "typed code is disabled" in answer(served, "api/typed", method="POST", body=asked)["error"]


def test_mistakes_are_one_line_and_a_stopped_solver_comes_back(served: Served) -> None:
    assert answer(served, "api/play?model=coin&n=0")["error"] == "n must be from 1 to 200, got 0"
    assert answer(served, "api/play?model=coin&n=3")["count"] == 3
    for process in served.explorer.solver.pool._processes.values():
        process.kill()
    time.sleep(0.2)
    assert answer(served, "api/play?model=coin&n=42")["count"] > 3


def test_the_command_tells_its_address_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    with start("explore", "runs", "--no-browser", cwd=tmp_path, session=True) as process:
        address = process.first_line(process.out).rpartition(" ")[2]
        about = json.load(urllib.request.urlopen(f"{address}api/about", timeout=20))  # it listens already
        assert about["folder"] == "runs"
        urllib.request.urlopen(f"{address}api/play?model=coin&n=150", timeout=30).read()  # it looks ahead now
        process.send_signal(signal.SIGINT)
        started = time.monotonic()
        _, errors = process.communicate(timeout=20)
        assert (process.returncode, errors) == (130, "refprior: stopped\n")
        assert time.monotonic() - started < 5
    assert not os.path.exists(tmp_path / "runs")  # looking makes nothing


def test_mistakes_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "file is a file" in refprior("explore", "file", cwd=tmp_path).stderr
    assert "from 0 to 65535" in refprior("explore", "--port", "70000", cwd=tmp_path).stderr
    with serving(tmp_path) as other:
        used = refprior("explore", "--no-browser", "--port", other.host.partition(":")[2], cwd=tmp_path)
    assert (used.returncode, used.stderr.count("\n")) == (2, 1)
    assert "is not available" in used.stderr
