"""Defaults of a user's own: two files and the environment, below what is written on the command line.

From weakest to strongest: what the command has by itself; `~/.config/arr-coc/config.toml` (or under $XDG_CONFIG_HOME);
`arr-coc.toml` in the folder the command is called from; variables such as ARR_COC_LOOK_BUDGET; options.

    [look]                 a table for each command; of a sub-command, [bench.needle]
    budget = "10%"         options without their dashes
    out = "looks"
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from typer.core import TyperCommand

from ...core.errors import InputError

PREFIX = "ARR_COC"  # of variables: ARR_COC_LOOK_BUDGET=10%


def config_files() -> list[Path]:
    """Where defaults may lie, the weakest first."""
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return [home / "arr-coc" / "config.toml", Path("arr-coc.toml")]


def defaults_for(name: str, command: TyperCommand, known: Mapping[str, object]) -> dict[str, object]:
    """What files and variables say about the command called `name`, by its parameters. known: all commands."""
    values: dict[str, object] = {}
    for path, document in read_files():
        unknown = sorted(set(document) - set(known))
        if unknown:
            raise InputError(f"{path} has a table [{unknown[0]}]; the commands are {', '.join(known)}")
        values = _merged(values, _of_command(path, f"[{name}]", document.get(name, {}), command))
    return _merged(values, _of_environment(f"{PREFIX}_{name}".upper(), command))


def read_files() -> Iterator[tuple[Path, dict[str, object]]]:
    for path in config_files():
        if not path.is_file():
            continue
        import tomllib

        try:
            yield path, tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InputError(f"{path} cannot be read as TOML ({error}); mend or remove it") from error


def _of_command(path: Path, where: str, table: object, command: TyperCommand) -> dict[str, object]:
    """One table, its options as the names of the command's parameters."""
    if not isinstance(table, dict):
        raise InputError(f"{path}: {where[1:-1]} is not a table; write {where} and options below it")
    inside = getattr(command, "commands", None)
    if inside is not None:
        unknown = sorted(set(table) - set(inside))
        if unknown:
            raise InputError(f"{path}: {where} has no {unknown[0]}; it has {', '.join(inside)}")
        return {key: _of_command(path, f"{where[:-1]}.{key}]", rest, inside[key]) for key, rest in table.items()}
    options = {flag.lstrip("-"): one for one in command.params for flag in one.opts if flag.startswith("--")}
    values = {}
    for key, value in table.items():
        option = options.get(key.replace("_", "-"))
        if option is None or key == "help":
            names = ", ".join(sorted(set(options) - {"help"}))
            raise InputError(f"{path}: {where} has no option {key}; choose from {names}")
        values[option.name] = value
    return values


def _of_environment(prefix: str, command: TyperCommand) -> dict[str, object]:
    """Variables such as ARR_COC_LOOK_BUDGET, by parameters; of an option that may be repeated, words."""
    inside = getattr(command, "commands", None)
    if inside is not None:
        below = {key: _of_environment(f"{prefix}_{key}".upper(), one) for key, one in inside.items()}
        return {key: values for key, values in below.items() if values}
    values = {}
    for one in command.params:
        flags = [flag for flag in one.opts if flag.startswith("--")]
        text = os.environ.get(f"{prefix}_{flags[0][2:].replace('-', '_').upper()}") if flags else None
        if text:
            values[one.name] = text.split() if one.multiple else text
    return values


def _merged(weaker: Mapping[str, object], stronger: Mapping[str, object]) -> dict[str, object]:
    """stronger over weaker, table by table."""
    both = {**weaker, **stronger}
    return {
        key: _merged(old, value) if isinstance(value, dict) and isinstance(old := weaker.get(key), dict) else value
        for key, value in both.items()
    }
