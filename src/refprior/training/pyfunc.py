"""The loader of MLflow's pyfunc flavor: `mlflow.pyfunc.save_model(…, loader_module="refprior.training.pyfunc")`."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from refprior.training._predictor import Predictor
from refprior.training._run import load_predictor


@dataclass(frozen=True)
class Served:
    """A predictor as MLflow calls it."""

    predictor: Predictor

    def predict(self, inputs: Any, params: Any = None) -> dict[str, np.ndarray]:
        """Return the most probable class of each input, and the probabilities of all classes."""
        return {
            "class": self.predictor.predict(inputs),
            "probabilities": np.asarray(self.predictor.predict_proba(inputs)),
        }


def _load_pyfunc(path: str) -> Served:
    """Load the saved predictor in a folder; the name is MLflow's."""
    return Served(load_predictor(path))
