"""The model card has what made the model, MLflow loads a saved predictor, and a hub gets model and card."""

import base64
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import refprior as rp


@pytest.fixture(scope="module")
def run() -> rp.Run:
    return rp.train(rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 3, "task.validation": 100}))


def test_the_card_says_what_made_the_model(run: rp.Run) -> None:
    card = run.predictor().card()
    assert card.startswith("---\nlibrary_name: refprior\n")
    assert "| method | methods.ReferencePrior |" in card
    assert "not calibrated" in card
    accuracy = run.result.evaluation.test.ema.accuracy  # type: ignore[union-attr]
    assert f"| test | {accuracy:.3f} |" in card
    assert "fitted to 100 inputs" in run.predictor().calibrated(run.task.validation).card()  # type: ignore[arg-type]


def test_a_model_without_provenance_has_a_card(run: rp.Run) -> None:
    from dataclasses import replace

    card = replace(run.predictor(), provenance={}, classes=tuple(f"a|{i}" for i in range(10))).card()
    assert "# A refprior model" in card
    assert r"a\|0" in card


def test_mlflow_serves_a_saved_predictor(run: rp.Run, tmp_path: Path) -> None:
    pyfunc = pytest.importorskip("mlflow.pyfunc")
    run.predictor().save(tmp_path / "model")
    pyfunc.save_model(
        str(tmp_path / "served"),
        loader_module="refprior.training.pyfunc",
        data_path=str(tmp_path / "model"),
        pip_requirements=["refprior[deep]"],
    )
    images = run.task.test.inputs[:4].numpy()  # type: ignore[union-attr]
    found = pyfunc.load_model(str(tmp_path / "served")).predict(images)
    np.testing.assert_array_equal(found["class"], run.predictor().predict(images))
    np.testing.assert_allclose(found["probabilities"], run.predict_proba(images), rtol=1e-5)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A server that answers as the Hugging Face Hub does and keeps the files of commits in a folder."""
    constants = pytest.importorskip("huggingface_hub.constants")

    class Hub(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            if "chunked" in self.headers.get("Transfer-Encoding", ""):
                body = b"".join(iter(lambda: self.rfile.read(int(self.rfile.readline(), 16) + 2)[:-2], b""))
            else:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            assert self.headers["Authorization"] == "Bearer hf_secret"
            answer: dict[str, object] = {"url": f"{address}/NAME/digits"}
            if "/preupload/" in self.path:
                files = [file["path"] for file in json.loads(body)["files"]]
                answer = {"files": [{"path": f, "uploadMode": "regular", "shouldIgnore": False} for f in files]}
            elif "/commit/" in self.path:
                assert self.path == "/api/models/NAME/digits/commit/main"
                lines = [json.loads(line) for line in body.splitlines()]
                for file in (line["value"] for line in lines if line["key"] == "file"):
                    (tmp_path / "hub" / file["path"]).write_bytes(base64.b64decode(file["content"]))
                answer = {"commitUrl": f"{address}/NAME/digits/commit/1", "commitOid": "1", "success": True}
            self._send(200, json.dumps(answer).encode())

        def do_GET(self) -> None:
            self._send(404, b"{}")

        def _send(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    (tmp_path / "hub").mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", address)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield tmp_path / "hub"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_hub_gets_the_model_and_its_card(run: rp.Run, hub: Path) -> None:
    predictor = run.predictor()
    assert predictor.push_to_hub("NAME/digits", token="hf_secret").endswith("/NAME/digits")
    assert (hub / "README.md").read_text() == predictor.card()
    images = run.task.test.inputs[:4].numpy()  # type: ignore[union-attr]
    np.testing.assert_array_equal(rp.load_predictor(hub).predict_proba(images), predictor.predict_proba(images))


def test_a_hub_gets_no_places_of_this_machine(run: rp.Run, hub: Path) -> None:
    predictor = run.predictor()
    there = {**predictor.provenance, "data": {**predictor.provenance["data"], "name": "/home/me/scans"}}
    replace(predictor, provenance=there).push_to_hub("NAME/digits", token="hf_secret")
    texts = [path.read_text() for path in hub.rglob("*") if path.suffix in (".md", ".json")]
    assert any("scans" in text for text in texts)
    assert not any("/home/me" in text for text in texts)


def test_a_missing_hub_client_is_an_error_with_the_remedy(run: rp.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refprior.training._predictor.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'refprior\[hub\]'"):
        run.predictor().push_to_hub("NAME/digits")
