"""`arr-coc microscope`: a web page that shows what the library sees, decides and answers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated

import typer

from ...core.folders import MINI
from .options import Choices, Listening, limits_of, with_options


@dataclass(frozen=True, kw_only=True)
class MicroscopeCommand(Listening, Choices):
    """What the page is started with."""

    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", help="A model that visitors may choose; may be repeated. [default: mini]"),
    ] = None
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False


@with_options(MicroscopeCommand)
def command(given: MicroscopeCommand) -> None:
    """A web page that shows what the library sees, decides and answers, for pictures, documents and clips.

    It can be reached from this machine only. Another host needs a password in the variable ARR_COC_PASSWORD;
    visitors are then asked for the name arr-coc and that password. Nothing is sent anywhere. Limits: upload
    (megabytes), pixels (megapixels), queue. Needs 'arr-coc[microscope]'.

    \b
    Examples:
      arr-coc microscope
      arr-coc microscope --open --bind 0
      arr-coc microscope --model mini --model ./my-qwen3-vl
      ARR_COC_PASSWORD=… arr-coc microscope --bind 0.0.0.0:7860
    """
    from ..microscope.serving import LIMITS, PageLimits, check_exposure, serve
    from .inputs import check_model

    password = os.environ.get("ARR_COC_PASSWORD") or None
    host, port = given.address(7860)
    check_exposure(host, password)
    limits = PageLimits(**limits_of(given.limit, LIMITS))
    options = given.options
    for name in given.model or ():
        check_model(name)

    def ready(address: str) -> None:
        print(f"The microscope is at {address} (Ctrl-C ends it)", flush=True)
        if given.show:
            import webbrowser

            webbrowser.open(address)

    serve(
        tuple(given.model or [MINI]),
        host=host,
        port=port,
        password=password,
        limits=limits,
        options=options,
        ready=ready,
    )
