"""A training's options: one frozen dataclass, from which its command line is made.

Every field becomes an option of the same name with the field's type and default; `option` gives it its help. A field
that is itself a dataclass lends its fields. What is not given keeps the default, so `Options(...)` in a program and the
command line say the same.
"""

from __future__ import annotations

import argparse
import os
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Options = TypeVar("Options")


def option(default: Any = MISSING, help: str = "", **how: Any) -> Any:
    """A field of a dataclass of options. how: `flag` (another name on the command line), `choices`, `positional`,
    `hidden` (for programs only)."""
    return field(default=default, metadata={"help": help, **how})


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What every training is asked. total: of the whole training, over which the learning rate falls; a run that is
    stopped and begun again goes on until `total` or `steps`, whichever is given."""

    seconds: float = option(480.0, "how long this run may train")
    total: float = option(0.0, "seconds of the whole training, all runs together; 0: those of this run")
    steps: int = option(0, "end after so many steps, all runs together, and be exactly repeatable; 0: by the time")
    seed: int = option(0, "of every random choice")
    device: str = option("", "cpu, cuda, cuda:1; empty: a GPU where there is one")
    folder: Path = option(Path("runs/train"), "where the checkpoint and the curve are kept")
    out: Path | None = option(None, "where what was trained is written [$OUT, else export in the folder]")
    checkpoint_every: float = option(120.0, "seconds between checkpoints; 0: after every step")
    judge_every: float = option(60.0, "seconds between judgements on pictures set aside, where there are any")
    say_every: float = option(10.0, "seconds between points of the curve; with --steps every step is one")
    log: tuple[str, ...] = option(
        (), "also write the curve to tensorboard, wandb or both", choices=("tensorboard", "wandb")
    )

    @property
    def whole(self) -> float:
        """Seconds of the whole training."""
        return self.total or self.seconds

    @property
    def target(self) -> Path:
        """Where the export goes."""
        return self.out or Path(os.environ.get("OUT") or self.folder / "export")


def takes_records(arguments: Iterable[str]) -> bool:
    """Whether a command line names records of the user's own (`own_data`)."""
    return any(one.split("=")[0] == "--data" for one in arguments)


def plain(options: Any) -> dict[str, Any]:
    """The options as JSON has them."""

    def value(item: Any) -> Any:
        if isinstance(item, Mapping):
            return {name: value(part) for name, part in item.items()}
        return str(item) if isinstance(item, Path) else item

    return value(asdict(options))


def parser_of(kind: Any, description: str | None) -> argparse.ArgumentParser:
    """The command line of a dataclass of options."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    _add(parser, kind, set())
    if any(item.name == "device" for item in fields(kind)):
        parser.add_argument("--cpu", dest="device", action="store_const", const="cpu", help="the same as --device cpu")
    return parser


def parse(kind: type[Options], arguments: Iterable[str] | None, description: str | None) -> Options:
    """The options that a command line gives."""
    return _build(kind, vars(parser_of(kind, description).parse_args(None if arguments is None else list(arguments))))


def _add(parser: argparse.ArgumentParser, kind: Any, known: set[str]) -> None:
    hints = get_type_hints(kind)
    for item in fields(kind):
        how = item.metadata
        if is_dataclass(hints[item.name]):
            _add(parser, hints[item.name], known)
        elif item.name not in known and not how.get("hidden"):
            known.add(item.name)
            names = [how.get("flag", "--" + item.name.replace("_", "-"))]
            what: dict[str, Any] = {"dest": item.name, **_argument(hints[item.name], item.default)}
            if how.get("choices"):
                several = what.get("nargs") == "+"
                what |= {"type": _listed(how["choices"])} if several else {"choices": how["choices"]}
            if how.get("positional"):
                names = [what.pop("dest")]
                what.pop("default", None)
                what.pop("required", None)
            shown = what.get("default", argparse.SUPPRESS)
            default = "" if shown in ((), "", None, argparse.SUPPRESS) or "action" in what else f" [{_shown(shown)}]"
            parser.add_argument(*names, help=(how.get("help", "") + default).strip().replace("%", "%%"), **what)


def _listed(choices: tuple[str, ...]) -> Callable[[str], list[str]]:
    """The type of an option that takes some of the choices, with commas or spaces between them."""

    def read(text: str) -> list[str]:
        words = text.split(",")
        unknown = [word for word in words if word not in choices]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown {', '.join(unknown)}; choose from {', '.join(choices)}")
        return words

    return read


def _shown(value: Any) -> str:
    return (
        " ".join(f"{one:g}" if isinstance(one, float) else str(one) for one in value)
        if isinstance(value, tuple)
        else (f"{value:g}" if isinstance(value, float) else str(value))
    )


def _argument(hint: Any, default: Any) -> dict[str, Any]:
    """What argparse wants to know about a field of this type."""
    base: dict[str, Any] = {"required": True} if default is MISSING else {"default": default}
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (hint,) = (part for part in parts if part is not type(None))
        origin, parts = get_origin(hint), get_args(hint)
    if hint is bool:
        return {"action": "store_false" if default else "store_true", "default": default}
    if origin is Literal:
        return {**base, "choices": parts, "type": type(parts[0])}
    if origin is tuple:
        return {**base, "nargs": "+", "type": parts[0]}
    return {**base, "type": hint}


def _build(kind: Any, given: Mapping[str, Any]) -> Any:
    hints, values = get_type_hints(kind), {}
    for item in fields(kind):
        hint = hints[item.name]
        if is_dataclass(hint):
            values[item.name] = _build(hint, given)
        elif item.name in given:
            value = given[item.name]
            if get_origin(hint) is tuple:
                # One side of a canvas stands for both.
                pair = get_args(hint)[-1] is not Ellipsis and len(value) == 1
                value = tuple(value) * 2 if pair else tuple(value)
                if value and isinstance(value[0], list):
                    value = tuple(word for words in value for word in words)
            values[item.name] = value
    return kind(**values)
