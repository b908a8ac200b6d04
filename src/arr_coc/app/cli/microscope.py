"""`arr-coc microscope`: a web page that shows what the library sees, decides and answers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ...core.errors import InputError
from ...core.files import read_text
from ...core.folders import MINI
from .options import Device, Port, with_options

PASSWORD = "ARR_COC_PASSWORD"
MOST_PORT = 65535


@dataclass(frozen=True)
class MicroscopeCommand:
    """What the page is started with."""

    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", help="A model that visitors may choose; may be repeated. [default: mini]"),
    ] = None
    server: Annotated[
        str | None, typer.Option(help="Address of a running arr-coc serve, whose model answers instead of one here.")
    ] = None
    api_key: Annotated[str | None, typer.Option(help="The key of that server; better set ARR_COC_API_KEY.")] = None
    port: Port = 7860
    host: Annotated[str, typer.Option(help="Another address than this machine's own needs a password.")] = "127.0.0.1"
    password_file: Annotated[
        Path | None, typer.Option(help=f"A file whose first line is the password; or set {PASSWORD}.")
    ] = None
    upload: Annotated[float, typer.Option(help="Largest upload, in megabytes.")] = 48
    pixels: Annotated[float, typer.Option(help="Largest picture, in megapixels.")] = 120
    queue: Annotated[int, typer.Option(help="Requests that may wait.")] = 64
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(help="Another site whose pages may ask, such as https://example.org. [default: none]"),
    ] = None
    numbers: Annotated[
        Path | None, typer.Option(help="Folder with needle.json and hypotheses.json for the tab Numbers.")
    ] = None
    relevance: Annotated[
        str, typer.Option(help="Who says where to look: a source by name, or the folder of a scorer.")
    ] = "auto"
    record: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.jsonl",
            help="Append what is asked and decided to a file of yours; `arr-coc judge` says what was right.",
        ),
    ] = None
    device: Device = "cpu"
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False


@with_options(MicroscopeCommand)
def command(options: MicroscopeCommand) -> None:
    """A web page that shows what the library sees, decides and answers, for pictures, documents and clips.

    It can be reached from this machine only. Another --host needs a password; visitors are then asked for the name
    arr-coc and that password. Nothing is sent anywhere, except to the --server that you name. Needs
    'arr-coc[microscope]'.

    \b
    Examples:
      arr-coc microscope
      arr-coc microscope --open --port 0
      arr-coc microscope --model mini --model ./my-qwen3-vl
      arr-coc microscope --server http://127.0.0.1:8000
      arr-coc microscope --relevance my-scorer --record feedback.jsonl
      ARR_COC_PASSWORD=… arr-coc microscope --host 0.0.0.0
    """
    from ...answering.feedback import Feedback
    from ...attending.request import check_device
    from ..microscope.limits import PageLimits, check_exposure
    from ..web import Origins, whole_units
    from .inputs import check_model

    check_port(options.port)
    password = read_password(options.password_file)
    check_exposure(options.host, password)
    if options.numbers is not None and not os.path.isdir(options.numbers):
        raise InputError(f"--numbers {options.numbers} is not a folder; give the --out of arr-coc bench needle")
    Origins(options.allow_origin or ())
    sizes = {
        "upload": whole_units(options.upload, 2**20, "--upload"),
        "pixels": whole_units(options.pixels, 1e6, "--pixels"),
    }
    limits = PageLimits(**sizes, queue=options.queue)
    kept = Feedback.of(options.record)
    check_device(options.device)
    for name in options.model or ():
        check_model(name)
    from ..microscope.remote import Remote
    from ..microscope.serving import serve

    def ready(address: str) -> None:
        print(f"The microscope is at {address} (Ctrl-C ends it)", flush=True)
        if options.show:
            import webbrowser

            webbrowser.open(address)

    remote = (
        None
        if options.server is None
        else Remote(options.server, options.api_key or os.environ.get("ARR_COC_API_KEY") or None)
    )
    serve(
        tuple(options.model or ([MINI] if remote is None else [])),
        host=options.host,
        port=options.port,
        password=password,
        device=options.device,
        server=remote,
        numbers=options.numbers,
        limits=limits,
        origins=options.allow_origin or (),
        ready=ready,
        eye={"relevance": options.relevance, "record": kept},
    )


def check_port(port: int) -> None:
    if not 0 <= port <= MOST_PORT:
        raise InputError(f"--port {port} does not exist; give 0 (any that is free) to {MOST_PORT}")


def read_password(file: Path | None) -> str | None:
    """From the file or the environment: on a command line, every user of the machine could read it."""
    if file is None:
        return os.environ.get(PASSWORD) or None
    try:
        lines = read_text(file, 1 << 16).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the password from {file} ({error}); give a text file") from error
    if not lines or not lines[0].strip():
        raise InputError(f"the first line of {file} is empty; write the password there")
    return lines[0].strip()
