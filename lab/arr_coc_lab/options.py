"""Make the command line of a training or a benchmark from one frozen dataclass of options.

Every field becomes an option of the same name with the field's type and default; `option` adds its help. Options left
out keep the default, so `Options(...)` in a program and `parse` for a command line mean the same.
"""

from __future__ import annotations

import argparse
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, asdict, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from arr_coc.core.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Options = TypeVar("Options", bound="DataclassInstance")


def option(default: object = MISSING, help: str = "", **how: object) -> Any:
    """Declare a field of a dataclass of options.

    Args:
        default: Default of the field; without one the option is required.
        help: Line of help for the command line.
        how: `flag` (another name on the command line, or several), `choices`, `metavar`, `least` (see `bench.run`).
    """
    return field(default=default, metadata={"help": help, **how})


def plain(options: DataclassInstance) -> dict[str, object]:
    """Convert options to JSON types."""

    def value(item: object) -> object:
        if isinstance(item, Mapping):
            return {name: value(part) for name, part in item.items()}
        return str(item) if isinstance(item, Path) else item

    return {name: value(item) for name, item in asdict(options).items()}


class OneLineParser(argparse.ArgumentParser):
    """A parser that raises `InputError` for a line that cannot be parsed."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; --help lists the options")


def parse(
    kind: type[Options], arguments: Iterable[str], description: str | None, program: str | None = None
) -> Options:
    """Parse a command line into options."""
    form = argparse.RawDescriptionHelpFormatter
    parser = OneLineParser(prog=program, description=description, formatter_class=form)
    _add(parser, kind)
    if any(item.name == "device" for item in fields(kind)):
        same = "the same as --device cpu"
        parser.add_argument(
            "--cpu", dest="device", action="store_const", const="cpu", default=argparse.SUPPRESS, help=same
        )
    given = vars(parser.parse_args(list(arguments)))
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})


def flags_of(item: Field[object]) -> tuple[str, ...]:
    """Return the names of an option on the command line."""
    flag = item.metadata.get("flag", "--" + item.name.replace("_", "-"))
    return (flag,) if isinstance(flag, str) else flag


def _add(parser: argparse.ArgumentParser, kind: type[DataclassInstance]) -> None:
    hints = get_type_hints(kind)
    for item in fields(kind):
        how, hint, default = item.metadata, hints[item.name], item.default
        if isinstance(hint, types.UnionType):
            (hint,) = (part for part in get_args(hint) if part is not types.NoneType)
        what: dict[str, Any] = {"dest": item.name, "choices": how.get("choices"), "metavar": how.get("metavar")}
        # Options left out are left to the dataclass.
        what |= {"required": default is MISSING, "default": argparse.SUPPRESS, "type": hint}
        if hint is bool:
            what = {"dest": item.name, "action": "store_false" if default else "store_true", "default": default}
        elif get_origin(hint) is tuple:
            # Repeated options add up: --family cards --family zoo.
            what |= {"nargs": "+", "type": get_args(hint)[0], "action": "extend"}
        several = default if isinstance(default, tuple) else (default,)
        shown = " ".join(f"{one:g}" if isinstance(one, float) else str(one) for one in several)
        known_default = default is not MISSING and default not in ((), "", None) and hint is not bool
        text = f"{how.get('help', '')} [{shown}]" if known_default else how.get("help", "")
        parser.add_argument(*flags_of(item), help=text.replace("%", "%%"), **what)
