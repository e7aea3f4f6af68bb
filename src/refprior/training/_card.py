"""The model card of a predictor, from its provenance."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refprior.training._predictor import Predictor

SCORES = {"accuracy": "accuracy", "negative_log_likelihood": "NLL", "brier": "Brier score", "calibration_error": "ECE"}


def card(predictor: "Predictor") -> str:
    """Return Markdown with the front matter that model hubs read."""
    made: Mapping[str, Any] = predictor.provenance
    recipe, data = made.get("recipe", {}), made.get("data", {})
    facts = {
        "particles": predictor.particles.count,
        "method": _kind(recipe.get("method")),
        "network": _kind(recipe.get("network")),
        "inputs": f"{' × '.join(map(str, predictor.shape))}, {str(predictor.dtype).removeprefix('torch.')}",
        "classes": ", ".join(predictor.classes),
        "training data": data.get("name"),
        "steps": made.get("step"),
        "seed": made.get("seed"),
        "temperature": f"{predictor.temperature:.3g}, {_calibration(made)}",
        "versions": ", ".join(f"{name} {version}" for name, version in made.get("versions", {}).items()),
    }
    scores = [(part, found) for part, found in made.get("scores", {}).items() if found]
    return "\n".join(
        [
            "---\nlibrary_name: refprior\ntags: [semi-supervised-learning, ensemble, uncertainty]\n---\n",
            f"# {data.get('name') or 'A refprior model'}\n",
            "An ensemble of networks trained with a reference prior. It predicts one of the classes below for every "
            "input, also for inputs of other classes; `uncertainty` reports how much the networks disagree.\n",
            *_table(("", ""), [(name, value) for name, value in facts.items() if value not in (None, "")]),
            "\n## Scores of the training run\n" if scores else "",
            *(_table(("part", *SCORES.values()), [(p, *(_number(s.get(k)) for k in SCORES)) for p, s in scores])),
            '\n## Use\n\n```python\nimport refprior as rp\n\nmodel = rp.load_predictor("FOLDER")\n'
            "model.predict(inputs), model.predict_proba(inputs), model.uncertainty(inputs).total\n```\n",
        ]
    )


def _kind(part: object) -> str:
    """Return the name of a part's class in the record of a recipe."""
    found = part.get("type", part.get("own", "")) if isinstance(part, Mapping) else part or ""
    return str(found).removeprefix("refprior.")


def _calibration(made: Mapping[str, Any]) -> str:
    found = made.get("calibration")
    return f"fitted to {found['count']} inputs ({found['part']})" if found else "not calibrated"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> list[str]:
    lines = [head, ("---",) * len(head), *rows] if rows else []
    return [
        "| " + " | ".join(str(cell).replace("|", r"\|").replace("\n", " ") for cell in line) + " |" for line in lines
    ]
