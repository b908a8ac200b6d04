"""Pages as HTML: Jinja2 templates under `templates/`, in which line breaks and indentation mean nothing."""

from __future__ import annotations

import html
import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.ext import Extension
from markupsafe import Markup

FOLDER = Path(__file__).with_name("templates")


class JoinedLines(Extension):
    """The end of a line goes with the blanks around it, so that a template can be set to be read. A blank that counts
    stands inside a line, and a `{{ }}`, `{% %}` or `{# #}` on one line."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        # The comment keeps the numbers of lines in messages.
        return re.sub(r"\s*\n\s*", "{#\n#}", source.strip())


def escaped(value: object) -> object:
    """Markup and marks as they are, all else as text."""
    return value if hasattr(value, "__html__") else Markup(html.escape(str(value)))


def styled(thing: Any, style: str) -> Any:
    """The mark or icon in a look of the template's: `{{ name|style("font-weight:bold") }}`."""
    return thing._replace(style=style)


@cache
def environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        finalize=escaped,
        extensions=[JoinedLines],
        undefined=StrictUndefined,
    )
    found.filters["style"] = styled
    return found


def render(template: str, **context: object) -> Markup:
    """`templates/{template}.html`, filled in."""
    return Markup(environment().get_template(f"{template}.html").render(context))
