"""What the explorer's slider waits for: the time of a solve, and of an answer that is known already.

Seconds of the processor, so that other programs on the machine do not count:

    python benchmarks/explore.py [--quick]
"""

import argparse
import http.client
import statistics
import tempfile
import threading
import time
from pathlib import Path

from refprior.explore._play import answer, draft
from refprior.explore.server import Served

QUESTIONS = {
    "coin": [f"model=coin&n={n}" for n in (10, 50, 100, 150, 175, 200)],
    "two coins": [f"model=two-coins&n={n}" for n in (10, 50, 200)],
    "coin in two stages": [f"model=coin&n={n}&m={m}" for n, m in ((10, 5), (50, 10), (100, 20), (100, 100))],
    "Gaussian": [f"model=gaussian&amplitude={a}" for a in (1, 5, 10)],
    "Poisson": [f"model=poisson&amplitude={a}" for a in (10, 50, 100)],
    "decay": [f"model=decay&sigma={s}" for s in (0.5, 0.3, 0.1)],
}


DRAFTS = {
    "model=coin&n=100": "model=coin&n=95",
    "model=coin&n=175": "model=coin&n=170",
    "model=coin&n=200": "model=coin&n=195",
    "model=coin&n=100&m=100": "model=coin&n=95&m=100",
    "model=gaussian&amplitude=10": "model=gaussian&amplitude=9.9",
}


def solved(text: str, near: bytes | None = None) -> float:
    """Milliseconds of the processor for one answer, or for its draft after a near one; the least of three."""
    taken = []
    for _ in range(3):
        begun = time.process_time()
        if near is None:
            answer(text)
        else:
            draft(text, near)
        taken.append(1000 * (time.process_time() - begun))
    return min(taken)


def known(text: str, times: int = 50) -> list[float]:
    """Milliseconds on the clock for an answer of the server that it has given before."""
    with tempfile.TemporaryDirectory() as folder:
        served = Served(Path(folder))
        thread = threading.Thread(target=served.run, daemon=True)
        thread.start()
        while not served.server.started:
            time.sleep(0.01)
        taken = []
        for _ in range(times + 1):
            begun = time.perf_counter()
            connection = http.client.HTTPConnection(served.host)
            connection.request("GET", f"/{served.token}/api/play?{text}")
            connection.getresponse().read()
            taken.append(1000 * (time.perf_counter() - begun))
        served.server.should_exit = True
        thread.join()
    return taken[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the first two questions of each model")
    asked = 2 if parser.parse_args().quick else None
    answer("model=coin&n=3")  # imports
    for name, questions in QUESTIONS.items():
        for text in questions[:asked]:
            print(f"{name:20} {text:40} {solved(text):7.0f} ms of the processor", flush=True)
    for text, near in DRAFTS.items():
        print(f"{'draft':20} {text:40} {solved(text, answer(near)):7.0f} ms of the processor", flush=True)
    taken = known("model=coin&n=200")
    print(f"known already: median {statistics.median(taken):.1f} ms, slowest of {len(taken)} {max(taken):.1f} ms")


if __name__ == "__main__":
    main()
