"""The options of a training or a bench: one frozen dataclass, from which its command lines are made.

Every field becomes an option of the same name with the field's type and default; `option` gives it its help. A field
that is itself a dataclass lends its fields. What is not given keeps the default, so `Options(...)` in a program,
`parse` (argparse, for `python -m`) and `typer_function` (for `arr-coc`) say the same.
"""

from __future__ import annotations

import argparse
import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, asdict, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Options = TypeVar("Options", bound="DataclassInstance")


def option(default: object = MISSING, help: str = "", **how: object) -> Any:
    """A field of a dataclass of options.

    Args:
        default: Of the field; without one the option is required.
        help: One line for the command line.
        how: `flag` (another name on the command line, or several), `choices`, `positional`, `metavar`, `hidden` (for
            programs only), `alone` (what the name without a value stands for, with `parse`), `least` (see `bench.run`).
    """
    return field(default=default, metadata={"help": help, **how})


def plain(options: DataclassInstance) -> dict[str, object]:
    """The options as JSON has them."""

    def value(item: object) -> object:
        if isinstance(item, Mapping):
            return {name: value(part) for name, part in item.items()}
        return str(item) if isinstance(item, Path) else item

    return {name: value(item) for name, item in asdict(options).items()}


def parser_of(kind: type[DataclassInstance], description: str | None) -> argparse.ArgumentParser:
    """The command line of a dataclass of options."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    _add(parser, kind, set())
    if any(item.name == "device" for item in fields(kind)):
        parser.add_argument("--cpu", dest="device", action="store_const", const="cpu", help="the same as --device cpu")
    return parser


def parse(kind: type[Options], arguments: Iterable[str] | None, description: str | None) -> Options:
    """The options that a command line gives."""
    return _build(kind, vars(parser_of(kind, description).parse_args(None if arguments is None else list(arguments))))


def _add(parser: argparse.ArgumentParser, kind: type[DataclassInstance], known: set[str]) -> None:
    hints = get_type_hints(kind)
    for item in fields(kind):
        how = item.metadata
        if is_dataclass(hints[item.name]):
            _add(parser, hints[item.name], known)
        elif item.name not in known and not how.get("hidden"):
            known.add(item.name)
            names = [*flags_of(item)]
            what: dict[str, Any] = {"dest": item.name, **_argument(hints[item.name], item.default)}
            if how.get("choices"):
                several = what.get("nargs") == "+"
                what |= {"type": _listed(how["choices"])} if several else {"choices": how["choices"]}
            if "alone" in how:
                what |= {"nargs": "?", "const": how["alone"]}
            if how.get("positional"):
                names = [what.pop("dest")]
                what.pop("default", None)
                what.pop("required", None)
            shown = argparse.SUPPRESS if item.default is MISSING else item.default
            default = "" if shown in ((), "", None, argparse.SUPPRESS) or "action" in what else f" [{_shown(shown)}]"
            parser.add_argument(*names, help=(how.get("help", "") + default).strip().replace("%", "%%"), **what)


def flags_of(item: Field[object]) -> tuple[str, ...]:
    """The names of an option on the command line."""
    flag = item.metadata.get("flag", "--" + item.name.replace("_", "-"))
    return (flag,) if isinstance(flag, str) else flag


def _listed(choices: tuple[str, ...]) -> Callable[[str], list[str]]:
    """The type of an option that takes some of the choices, with commas or spaces between them."""

    def read(text: str) -> list[str]:
        words = text.split(",")
        unknown = [word for word in words if word not in choices]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown {', '.join(unknown)}; choose from {', '.join(choices)}")
        return words

    return read


def _shown(value: object) -> str:
    return (
        " ".join(f"{one:g}" if isinstance(one, float) else str(one) for one in value)
        if isinstance(value, tuple)
        else (f"{value:g}" if isinstance(value, float) else str(value))
    )


def _argument(hint: object, default: object) -> dict[str, object]:
    """What argparse wants to know about a field of this type."""
    base: dict[str, object] = {"required": True} if default is MISSING else {"default": default}
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (hint,) = (part for part in parts if part is not type(None))
        origin, parts = get_origin(hint), get_args(hint)
    if hint is bool:
        return {"action": "store_false" if default else "store_true", "default": default}
    if origin is Literal:
        return {**base, "choices": parts, "type": type(parts[0])}
    if origin is tuple:
        # What may be given several times adds up: --family cards --family zoo.
        several: dict[str, object] = {"action": "extend"} if parts[-1] is Ellipsis else {}
        several |= {"default": None} if several and default is not MISSING else {}
        return {**base, "nargs": "+", "type": parts[0], **several}
    return {**base, "type": hint}


def _build(kind: type[Options], given: Mapping[str, Any]) -> Options:
    hints, values = get_type_hints(kind), {}
    for item in fields(kind):
        hint = hints[item.name]
        if is_dataclass(hint):
            values[item.name] = _build(hint, given)
        elif item.name in given:
            value = given[item.name]
            if get_origin(hint) is tuple and value is None:
                continue
            if get_origin(hint) is tuple:
                # One side of a canvas stands for both.
                pair = get_args(hint)[-1] is not Ellipsis and len(value) == 1
                value = tuple(value) * 2 if pair else tuple(value)
                if value and isinstance(value[0], list):
                    value = tuple(word for words in value for word in words)
            values[item.name] = value
    return kind(**values)


# ---- the same for typer ----------------------------------------------------------------------------------------------


def typer_function(kind: type[Options], call: Callable[[Options], None], help: str) -> Callable[..., None]:
    """A function of which typer makes a command: one parameter for each field of a dataclass of options.

    Args:
        kind: The dataclass.
        call: Called with the options that were given.
        help: The docstring of the command.

    Returns:
        The function, for `app.command(name)`.
    """
    hints = get_type_hints(kind)
    shown = [item for item in fields(kind) if not item.metadata.get("hidden")]
    shown.sort(key=lambda item: item.name not in kind.__annotations__)  # its own before those that many have

    def command(**given: object) -> None:
        # An option that may be repeated and was not comes as None: the dataclass knows its default.
        call(_build(kind, {name: value for name, value in given.items() if value is not None}))

    parameters = [_typer_parameter(item, hints[item.name]) for item in shown]
    # Python wants those without a default first; on a command line the order means nothing.
    parameters.sort(key=lambda one: one.default is not inspect.Parameter.empty)
    command.__doc__ = help
    command.__dict__["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def _typer_parameter(item: Field[object], hint: Any) -> inspect.Parameter:
    import typer

    default: Any = inspect.Parameter.empty if item.default is MISSING else item.default
    repeated = get_origin(hint) is tuple and get_args(hint)[-1] is Ellipsis
    names = flags_of(item)
    if hint is bool and "flag" not in item.metadata:
        names = (f"{names[0]}/--no-{names[0][2:]}",)
    if repeated:
        several: Any = list
        hint = several[get_args(hint)[0]]
        hint, default = (hint, default) if item.default is MISSING else (hint | None, None)
    text = item.metadata.get("help", "")
    if repeated and item.default and item.default is not MISSING:
        text += f" [default: {_shown(item.default)}]"
    how = typer.Option(
        *names, help=text, metavar=item.metadata.get("metavar"), show_default=default not in (None, "", False)
    )
    return inspect.Parameter(
        item.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, how]
    )
