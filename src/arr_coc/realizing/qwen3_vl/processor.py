"""Load a Qwen3-VL processor for pictures, with or without torchvision."""

from __future__ import annotations

from functools import cache
from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import Qwen3VLProcessor


def load_processor(name: str | PathLike[str], **options: object) -> Any:
    """The processor of a model on the hub or in a folder.

    The stock class wants a video processor, which needs torchvision; where that is missing, the same class is built
    from the tokenizer and the image processor alone. Pictures are treated the same either way.
    """
    from transformers import AutoProcessor

    try:
        return AutoProcessor.from_pretrained(name, **options)
    except (ImportError, AttributeError) as error:
        if "orchvision" not in str(error) and "video" not in str(error).lower():
            raise
    from transformers import AutoImageProcessor, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(name, **options)
    return picture_processor(AutoImageProcessor.from_pretrained(name, **options), tokenizer, tokenizer.chat_template)


def picture_processor(pictures: object, tokenizer: object, template: object) -> Qwen3VLProcessor:
    """The stock processor of an image processor and a tokenizer, without one for videos."""
    made = _picture_class()
    return made(image_processor=pictures, tokenizer=tokenizer, video_processor=None, chat_template=template)


@cache
def _picture_class() -> type[Qwen3VLProcessor]:
    """Made when it is first needed, because its parent is transformers'; it is pickled by what it is made of."""
    from transformers import Qwen3VLProcessor

    class PictureProcessor(Qwen3VLProcessor):
        def check_argument_for_proper_class(self, argument_name: str, argument: object) -> object:
            # The stock check looks the video processor's class up in a table that torchvision would have filled.
            if argument_name == "video_processor":
                return type(argument)
            return super().check_argument_for_proper_class(argument_name, argument)

        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return picture_processor, (self.image_processor, self.tokenizer, self.chat_template)

    return PictureProcessor
