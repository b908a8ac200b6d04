"""A callback of LiteLLM, for its proxy and its library: what a request shows is packed before it is sent.

foveate = Foveate(budget="25%")      then litellm.callbacks = [foveate], or `callbacks: my_file.foveate` in config.yaml

Nothing here installs LiteLLM; who has it has this.
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
# LiteLLM's names of calls, and the paths of the protocols that they speak.
CALLS = {"anthropic_messages": "/messages", "aresponses": "/responses", "acompletion": "/chat/completions"}


class Foveate(CustomLogger):
    """Pack the pictures and documents of every asynchronous call.

    Args:
        budget: Tokens of each picture, or a share.
        assume: The model whose table counts for names that have none.
        options: Others of `arr_coc.Options`, such as relevance="scorer".
    """

    def __init__(self, budget: int | float | str = "25%", assume: str | None = None, **options: object) -> None:
        super().__init__()
        own = Options.of({"relevance": "auto", **options, "budget": budget})
        # Nothing is sent to this address: LiteLLM sends.
        self.packer = Packer(ProxySettings("http://127.0.0.1", assume, own))

    async def async_pre_call_deployment_hook(self, kwargs: JsonObject, call_type: Any) -> JsonObject | None:
        """Pack what is sent to a deployment; what was saved stands in the call's metadata, as `arr_coc`."""
        name = getattr(call_type, "value", call_type)
        protocol = protocol_of(CALLS.get(name, ""))
        if protocol is None:
            return None
        body = {key: deepcopy(kwargs[key]) for key in (protocol.messages, "model", "tools") if kwargs.get(key)}
        try:
            if Pointing.of(body) is not None:  # coordinates of answers are translated by the proxy alone
                raise InputError("a tool of this request points")
            packed = await self.packer.request(body, protocol, body.get("model"), self.packer.settings.options.budget)
        except InputError as error:
            packed = PackedRequest(reason=str(error))
        # A provider may refuse what it does not know in `metadata`; LiteLLM keeps this to itself.
        key = "metadata" if name == "acompletion" else "litellm_metadata"
        saved = {"tokens": packed.spent, "full": packed.full, "reason": packed.reason}
        changed = {protocol.messages: body[protocol.messages]} if packed.changed else {}
        return {**kwargs, **changed, key: {**(kwargs.get(key) or {}), "arr_coc": saved}}
