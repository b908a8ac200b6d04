"""A callback of LiteLLM, for its proxy and its library: pictures of requests are packed before they are sent.

foveate = Foveate(budget="25%")      then litellm.callbacks = [foveate], or `callbacks: my_file.foveate` in config.yaml

It needs LiteLLM, which no extra of arr-coc installs.
"""

from __future__ import annotations

from copy import deepcopy
from importlib import import_module
from typing import Any

from ..core.errors import InputError
from ..core.values import JsonObject
from ..options import Options
from .proxy.packer import PackedRequest, Packer, ProxySettings
from .proxy.pointing import Pointing
from .proxy.protocols import protocol_of

CustomLogger: Any = import_module("litellm.integrations.custom_logger").CustomLogger
# LiteLLM's name of a call → path of the protocol that it uses.
CALLS = {"anthropic_messages": "/messages", "aresponses": "/responses", "acompletion": "/chat/completions"}


class Foveate(CustomLogger):
    """Pack the pictures and documents of every asynchronous call.

    Args:
        budget: Tokens for each picture, or a share.
        assume: The model whose price table is used for unknown models.
        options: Other fields of `arr_coc.Options`, such as relevance="scorer".
    """

    def __init__(self, budget: int | float | str = "25%", assume: str | None = None, **options: object) -> None:
        super().__init__()
        own = Options.of({"relevance": "auto", **options, "budget": budget})
        # Nothing is sent to this address; LiteLLM sends the requests.
        self.packer = Packer(ProxySettings("http://127.0.0.1", assume, own))

    async def async_pre_call_deployment_hook(self, kwargs: JsonObject, call_type: Any) -> JsonObject | None:
        """Pack the pictures sent to a deployment; write the tokens spent into the call's metadata, as `arr_coc`."""
        name = getattr(call_type, "value", call_type)
        protocol = protocol_of(CALLS.get(name, ""))
        if protocol is None:
            return None
        body = {key: deepcopy(kwargs[key]) for key in (protocol.messages, "model", "tools") if kwargs.get(key)}
        try:
            if Pointing.of(body) is not None:  # only the proxy translates coordinates in answers
                raise InputError("a tool of this request uses coordinates; use the proxy for it")
            packed = await self.packer.request(body, protocol, body.get("model"), self.packer.settings.options.budget)
        except InputError as error:
            packed = PackedRequest(reason=str(error))
        # Providers may refuse unknown fields in `metadata`; LiteLLM does not send `litellm_metadata`.
        key = "metadata" if name == "acompletion" else "litellm_metadata"
        saved = {"tokens": packed.spent, "full": packed.full, "reason": packed.reason}
        changed = {protocol.messages: body[protocol.messages]} if packed.changed else {}
        return {**kwargs, **changed, key: {**(kwargs.get(key) or {}), "arr_coc": saved}}
