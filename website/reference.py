"""The API pages, from the public names and their docstrings: one page per package, one entry per name."""

import ast
import dataclasses
import inspect
import re
import textwrap
import types
from collections.abc import Iterator

import refprior as rp
from refprior import estimators, particles

DOORS: tuple[types.ModuleType, ...] = (
    rp.exact,
    rp.exact.models,
    estimators,
    rp.data,
    rp.views,
    rp.networks,
    particles,
    rp.methods,
    rp.losses,
    rp.information,
    rp.training,
    rp.recipes,
    rp.posterior,
    rp.labeling,
    rp.geometry,
    rp.variational,
    rp.report,
)
WIDTH = 88  # of a signature on one line
BLANK = "\n\n"
STARS = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}
INTRODUCTION = """# Reference

Everything public, from its docstring. `rp` is `import refprior as rp`. Names that begin with an underscore may change
at any time. The tests run every example on these pages."""
PRIVATE = re.compile(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])")  # refprior.data._task.Task -> Task


def pages() -> dict[str, str]:
    """Page -> Markdown: the index and one page per package."""
    made = {f"reference/{_short(door)}.md": _page(door) for door in DOORS}
    return {"reference/index.md": _index(), **made}


def _short(door: types.ModuleType) -> str:
    return door.__name__.removeprefix("refprior.")


def _public(door: types.ModuleType) -> list[str]:
    """Its names; a package within it has a page of its own."""
    return sorted((name for name in door.__all__ if not inspect.ismodule(getattr(door, name))), key=str.lower)


def _anchor(door: types.ModuleType, name: str) -> str:
    return f"{_short(door)}.{name}"


def _summary(thing: object) -> str:
    """The first sentence of a docstring; a constant has none."""
    if not (inspect.isclass(thing) or inspect.isroutine(thing) or inspect.ismodule(thing)):
        return ""
    text = inspect.getdoc(thing) or ""
    return text.split("\n\n")[0].replace("\n", " ")


def _index() -> str:
    parts = [INTRODUCTION, _front_door()]
    for door in DOORS:
        parts.append(f"## [{_title(door)}]({_short(door)}.md)\n\n{_prose(_summary(door))}")
        parts.append("\n".join(["| name | what |", "|---|---|", *(_row(door, name) for name in _public(door))]))
    return "\n\n".join(parts) + "\n"


def _row(door: types.ModuleType, name: str) -> str:
    return f"| [`{name}`]({_short(door)}.md#{_anchor(door, name)}) | {_prose(_summary(getattr(door, name)))} |"


def _front_door() -> str:
    """The names of `rp` itself, each with a link to where it is described."""
    names = [name for name in dir(rp) if not inspect.ismodule(getattr(rp, name))]
    return "The front door: " + ", ".join(_link(name) for name in names) + "."


def _link(name: str) -> str:
    home = next(door for door in DOORS if name in door.__all__)
    return f"[`rp.{name}`]({_short(home)}.md#{_anchor(home, name)})"


def _title(door: types.ModuleType) -> str:
    return f"rp.{_short(door)}" if _short(door).partition(".")[0] in dir(rp) else f"refprior.{_short(door)}"


def _page(door: types.ModuleType) -> str:
    entries = "\n\n".join(_entry(door, name) for name in _public(door))
    return f"# {_title(door)}\n\n{_documented(inspect.getdoc(door) or '')}\n\n{entries}\n"


def _entry(door: types.ModuleType, name: str) -> str:
    thing = getattr(door, name)
    parts = [f"## {name} {{ #{_anchor(door, name)} }}"]
    if inspect.isclass(thing) or inspect.isfunction(thing):
        parts += [_code(_signature(name, thing), "python"), _documented(inspect.getdoc(thing) or "")]
        parts += list(_members(thing)) if inspect.isclass(thing) else []
    else:
        parts.append(_constant(thing))
    return "\n\n".join(part for part in parts if part)


def _constant(thing: object) -> str:
    """A number or a type as it is written; of a collection, how much is in it."""
    if isinstance(thing, dict | tuple | list):
        return f"A constant with {len(thing)} entries."
    return _code(_annotation(thing), "python")


def _code(text: str, language: str = "pycon") -> str:
    return f"```{language}\n{text}\n```"


def _annotation(annotation: object) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return PRIVATE.sub("", text.replace("NoneType", "None")).replace("'", '"')


def _signature(name: str, thing: object, width: int = WIDTH) -> str:
    """As one would write it: without module names, one argument a line where it is long."""
    try:
        found = inspect.signature(thing)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return name
    written = _written(thing)
    items = list(_arguments(found, written))
    end = f" -> {written['return']}" if "return" in written and not inspect.isclass(thing) else ""
    line = f"{name}({', '.join(items)}){end}"
    return line if len(line) <= width else f"{name}(\n" + "".join(f"    {item},\n" for item in items) + f"){end}"


def _written(thing: object) -> dict[str, str]:
    """Annotations as their author wrote them, `ArrayLike` and not what numpy makes of it; `return` for the result."""
    sources = [thing]
    if inspect.isclass(thing):
        own = vars(thing).get("__init__")
        explicit = inspect.isfunction(own) and own.__code__.co_filename != "<string>"
        sources = (
            [own] if explicit else [base for base in thing.__mro__[::-1] if base.__module__.startswith("refprior")]
        )
    return {name: text for source in sources for name, text in _annotations(source)}


def _annotations(source: object) -> Iterator[tuple[str, str]]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(source))).body[0]  # type: ignore[arg-type]
    except (OSError, TypeError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation:
            yield node.arg, _source(node.annotation)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, _source(node.annotation)
    if isinstance(tree, ast.FunctionDef) and tree.returns:
        yield "return", _source(tree.returns)


def _source(annotation: ast.expr) -> str:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return _annotation(annotation.value)
    return _annotation(ast.unparse(annotation))


def _arguments(found: inspect.Signature, written: dict[str, str]) -> Iterator[str]:
    kind = None
    for argument in found.parameters.values():
        if argument.name in ("self", "cls"):
            continue
        if argument.kind is argument.KEYWORD_ONLY and kind not in (argument.KEYWORD_ONLY, argument.VAR_POSITIONAL):
            yield "*"
        kind = argument.kind
        typed = f": {written[argument.name]}" if argument.name in written else ""
        text = STARS.get(argument.kind.name, "") + argument.name + typed
        if argument.default is not argument.empty:
            text += f"{' = ' if typed else '='}{_default(argument.default)}"
        yield text


def _default(value: object) -> str:
    text = repr(value)
    return "…" if "<factory>" in text or " at 0x" in text else text


def _members(thing: type) -> Iterator[str]:
    """Methods and properties of a class that have docstrings of their own, as entries of a list."""
    rows = []
    for name, member in vars(thing).items():
        kind = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        text = inspect.getdoc(kind) if isinstance(kind, property) or inspect.isfunction(kind) else None
        if name.startswith("_") or not text:
            continue
        call = name if isinstance(kind, property) else _signature(name, kind, width=10_000)
        rows.append(f"- `{call}`: {_prose(text.partition(BLANK)[0])}")
    fields = _fields(thing)
    if fields:
        yield "Fields: " + ", ".join(f"`{field}`" for field in fields) + "."
    if rows:
        yield "\n".join(rows)


def _fields(thing: type) -> list[str]:
    """Of a record that is never called by hand, such as a NamedTuple; a dataclass has them in its signature."""
    if dataclasses.is_dataclass(thing):
        return []
    return list(getattr(thing, "_fields", ()))


def _prose(text: str) -> str:
    """Plain text as Markdown: only `code` keeps a meaning."""
    parts = re.split(r"(``?[^`]+``?)", text.replace("\n", " "))
    return "".join(part if part.startswith("`") else re.sub(r"([*_<\[\]$~|\\])", r"\\\1", part) for part in parts)


def _documented(text: str) -> str:
    """A docstring as Markdown: prose, examples, lists, scikit-learn's sections, and indented blocks as they stand."""
    return "\n\n".join(_block(block) for block in re.split(r"\n\s*\n", text) if block.strip())


def _block(block: str) -> str:
    lines = block.splitlines()
    if len(lines) > 1 and set(lines[1]) == {"-"}:
        return f"**{lines[0]}**\n\n{_section(lines[2:])}"
    if lines[0].startswith(">>>"):
        return _code(block)
    if all(line.startswith((" ", "|")) for line in lines):
        return f"```text\n{inspect.cleandoc(block)}\n```"
    if lines[0].startswith(("- ", "1. ")):
        return re.sub(r"(?m)^([-\d.]+ )(.*)$", lambda found: found[1] + _prose(found[2]), block)
    return _prose(block)


def _section(lines: list[str]) -> str:
    """`name : what` and indented lines below it, as a list; examples as they are."""
    if lines and lines[0].startswith(">>>"):
        return _code("\n".join(lines))
    items: list[str] = []
    for line in lines:
        if line.startswith(" "):
            items[-1] += " " + _prose(line.strip())
        else:
            name, _, what = line.partition(" :")
            items.append(f"- `{name.strip()}`" + (f" ({_prose(what.strip())})." if what.strip() else "."))
    return "\n".join(items)
